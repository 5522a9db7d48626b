// Package ledger enforces tenants' limits and budgets, and counts what they use, over all replicas. Start at
// [Ledger.Reserve], which checks a request, [Reservation.Settle], which reports what it has really used, and [Ledger.Add],
// which counts it by tenant, route and day, and by route and hour.
//
// # What is promised
//
// One script checks a tenant's limits per minute and its budgets per hour, day and month of the UTC calendar, and reserves, in
// one round trip: if one refuses, none is charged. A tenant without them costs none. No request fails because of Redis, and none
// waits for it longer than its budget of time, which it shares with the look-up in the cache (100 ms longer for budgets with
// on_redis_loss: deny); after five failures in a row none waits at all, until Redis has answered in time in the background. While
// Redis answers, what all requests of a window have used is above the budget by no more than what those in flight use beyond
// their estimates, and no minute admits more requests than limit + burst, and one burst more for each time that Redis returns in it.
//
// # Budgets and usage: sums of each process
//
// Every number is written by one process only: what it has counted since its start, as an absolute sum with a version. The
// scripts ignore versions that they have, and add the sums up. So a command that is repeated, late or lost counts once or not
// at all, and what Redis has lost is written again by those that live ([Ledger.Lost]). If Redis has lost data, its sums are not used for 2.5 s, as if Redis were away: by then all have told theirs again.
// What others have settled in a window never becomes less, so what exceeds the budget by that is refused whatever Redis says.
//
// Without Redis, each of N replicas may add 1/N of what was left when it heard of all others last, at each of its requests and
// every five seconds. What others have reserved since then may come on top. A process that has died leaves what it had settled;
// its reservations stop to count after 30 s. If one of more than 64 was silent for an hour and only cut off, its part counts
// twice, and the budget is used up early.
//
// # Limits: levels
//
// The algorithm is GCRA, stored as a level, so that a changed limit takes effect at once. One minute's limit drains from a level
// per minute. A request is admitted while the level is at most the slack, and then its whole amount is added. So limits slide,
// and a smaller request has no precedence over a larger one. A charge that Redis counted after its reply was late, and a
// correction that was lost, drain away within two minutes.
//
// When Redis fails, each of N replicas continues with 1/N of the free part, the burst minus the level, that Redis reported last, and
// drains slower by the slack, so that no minute admits more than its share. Redis is not told of what was admitted without it.
// Concurrent requests are counted by each replica for itself: the limit divided by the replicas, rounded up, at least one.
package ledger
