// Package limits holds a tenant to its requests per minute, its tokens per minute and its
// concurrent requests, over all replicas. Start at [Limiter.Enter], which asks, and
// [Grant.Settle], which tells what was really used.
//
// # What is promised
//
// Requests and tokens are counted in Redis, in one script and one round trip for both: a
// request that is refused for one of them uses up neither. A tenant without such limits costs
// no round trip. No request fails because of Redis, and none waits for it longer than the
// budget; after five failures in a row none waits at all, until a command in the background
// was answered in time.
//
// While Redis is not to be had, a replica admits the tenant's limit divided by the number of
// replicas last known, so all together admit no more than the limit (a limit below the number
// of replicas is the exception: each lets at least one in). A tenant gains no second burst by
// Redis' going nor by its return, and one that stays well below its limit is not refused for
// it: see The change.
//
// The budget is one for all that a request asks of Redis: what the look-up in the cache has
// waited is taken off. With nothing left Redis is told, and this replica decides.
//
// Concurrent requests are counted by each replica for itself, without Redis: it lets in the
// limit divided by the number of replicas, rounded up, at least one.
//
// # The law
//
// A bucket holds what is owed and loses a minute's limit every minute. Who asks is let in
// while no more than a slack is owed, and all it asks for is then owed: this is GCRA, kept as
// a level, so that a changed limit counts at once. For an integer sum, no minute sees more
// than limit + slack. The slack of requests is a fiftieth of the limit less one (limits under
// 200: up to three requests, up to a tenth), so that a burst is 1.2 seconds' worth; a minute's
// worth would let in twice the limit within a minute. Tokens are estimates until they are
// settled and come in large pieces: their slack is three seconds' worth, and the last one let
// in may go beyond it. Nobody who asks for less goes first. Local buckets drain slower by the
// slack, so that no minute sees more than the share.
//
// # The change
//
// Room is a burst less what is owed. When Redis goes, each of N replicas goes on with an Nth of
// the room that Redis told last (and at most its own burst); when it returns, the bucket there
// is owed no less than a burst less N times the room of the replica that asks, and, if that was
// on its own for longer than a few failures, also what is owed to it. So Redis may return empty
// or as it was.
//
// Why no minute sees more than limit + burst, however often Redis goes, where requests go over
// all replicas alike. At the going, N rooms of an Nth are no more than the room there was. While
// it is away, all together drain no faster than the limit. At the return the first replica
// speaks for all; one that comes later was let in at most 1.2 s more at its share, which is its
// burst, and it adds what it is owed. Replicas differ by a request, and that is what the bound
// may be off by for each but the first. A tenant that comes, just as Redis goes, to replicas
// that it had left alone has at most their bursts once more.
//
// Why nobody is refused for it who sends, in pairs that take the replicas in turn, half of a
// limit whose Nth has a burst of two (20 a minute or more): a replica sees its next pair only
// after its bucket has lost nearly four, so it is empty again, then no room is lost at either
// change; and of the room that the going left it has gained two.
//
// # Late answers
//
// A request that Redis does not answer within the budget is decided by this replica, and may be
// charged in Redis all the same. When the answer comes after all, that charge is given back
// if the request was refused here, and else settled by what was used, once it is over. While Redis is
// left alone, refunds wait, less what drains meanwhile. An answer that never comes (the connection ends, or 100 ms pass)
// leaves its charge, if there was one, to the drain.
//
// The script is ours, since what there is asks for one limit per round trip (redis_rate, by
// EVAL, last released in 2023) or takes several round trips (throttled).
package limits
