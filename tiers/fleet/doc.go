// Package fleet shares state between the replicas of Foregate through Redis: live replicas, backend ownership
// (who scrapes which backend), prefix placements, and topics: texts by field, of which the later one wins ([Topic]);
// readings and drains are two. Start at [Fleet.Run], which ticks every 500 ms, outside every request's path: one round trip.
// Nothing here fails or waits because of Redis: [Fleet.Mine] answers from memory, [Fleet.Publish] and [Fleet.Place] write
// into bounded queues, and without Redis a replica owns every backend. It guarantees, while Redis answers:
// - A backend has one owner, the same on every replica.
// - When a replica leaves, the others take over at their next tick; when it dies, within 1.5 s and a tick.
// - A pool that hears two readings keeps the one taken later. All replicas read the placements in the same order.
// - Every replica finds that Redis lost data, (Options.Lost), and tells again what it knows.
// All times in Redis come from Redis' clock. A replica's clock measures only ages, so it may be wrong by
// hours. If Redis' clock jumps, the ownership is unclear for one tick: backends have two owners or none is
// known (pools then scrape for themselves); texts of that tick are told again at once. A replica
// is alone after 1.5 s without a good tick ([Fleet.Sharing]). A tick whose heartbeat Redis refuses (it is full, read-only, loading) has
// failed; data that it still returns (drains, placements) is used. The age of received data is exact up to a
// round trip. From the scrape to the last replica it takes up to two ticks. With scrapes every s, a received
// reading is up to s + 2 ticks old when the next one replaces it.
package fleet
