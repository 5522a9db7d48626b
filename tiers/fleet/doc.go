// Package fleet is what the replicas of Foregate tell each other through Redis: who lives,
// who scrapes which backend, readings, prefix placements, drains.
//
// Start at [Fleet.Run], which ticks every 500 ms (±10 %), off every request's path. Nothing
// here fails or waits because Redis does: [Fleet.Mine] answers from memory, [Fleet.Publish]
// and [Fleet.Place] put into bounded queues, and without Redis a replica owns every backend.
//
// It promises, while Redis answers: a backend has one owner, the same on every replica; a
// replica that leaves is followed by the others' next tick, one that dies within 1.5 s and a
// tick; of two readings the one taken later stands, whoever sends last; placements are heard
// in one order by all. All times in Redis are Redis' own; a replica's clock measures ages
// only, so clocks may be wrong by hours. A clock of Redis that jumps costs a tick of doubt,
// in which backends have two owners or none is told of (pools then scrape for themselves);
// drains with an end keep to that clock.
//
// How much Redis there is, is the [Mode] of this replica, a ladder: shared, degraded at the
// first tick that fails, local when none went well for 1.5 s; shared again after three good
// ticks in a row and half a second, or up to 4 s where it fell soon after the last climb. A
// tick whose heartbeat Redis refuses (it is full, read-only, loading) has failed; what it
// tells all the same (drains, placements) is heard. [Fleet.Known] outlives all of that.
//
// What a replica hears is aged from before its tick was sent, so a reading looks older than
// it is by up to a round trip, and younger by up to one on the way in. From the scrape to
// the last replica's ear it takes up to two ticks; with scrapes every s, a reading that is
// heard is up to s + 2 ticks old when the next one replaces it: 1.6 s at 500 ms each.
//
// # Cost
//
// R replicas that tick every I seconds, P pools, A ≤ P of them with placements in a tick,
// B backends each scraped every S seconds:
//
//	round trips/s        = R/I
//	commands sent/s      = R/I · (2 + 2P + A)       beat, drains; per pool: share, log, own entry
//	commands executed/s  = R/I · (10 + 5P + A) + 2B/S   with those inside scripts
//	readings told/s      = R/I · B                  about 120 bytes each, Redis' main work
//
// At I = S = 0.5 and A = P, measured on a Redis 7.0 (its busy time is that of its commands):
//
//	R = 3, P = 2, B = 8:       6 round trips/s,    48 sent/s,   164 executed/s, Redis busy 0.04 %
//	R = 50, P = 10, B = 500: 100 round trips/s, 3,200 sent/s, 9,000 executed/s, Redis busy 5 %
//
// Losing its scripts costs each replica two round trips more, once.
// Every 30 s one replica sends up to P + 1 commands more, to tidy.
package fleet
