// Package budgets enforces tenants' budgets: tokens and dollars per hour, day or month of the UTC calendar, over all
// replicas. Start at [Ledger.Reserve], which checks a request, and [Reservation.Settle], which reports what it has really
// used.
// # What is promised
// While Redis answers, what all requests of a window have used is above the budget by no more than what the requests in
// flight use beyond their estimates. A request is charged once, in the window in which it began: what tpm charges, and
// the dollars of its receipt. A request that is refused, shed or answered from the cache is charged nothing. A tenant
// without budgets costs nothing, one with budgets one round trip, in which all its budgets are checked together: if one
// refuses, none is charged. No request waits for Redis longer than its budget of time, which it shares with the look-up
// in the cache and with limits (100 ms longer for budgets with on_redis_loss: deny).
// # Why it holds
// Redis has one hash per tenant and window, and in it one field per replica process: what this process has settled and
// reserved since its start, in absolute numbers, with a version. Nobody else writes this field. So a command that is
// repeated, late or lost counts once or not at all, and the next command says everything again. A script adds the fields
// up, with the new reservation, and compares the sum with the budget. It is atomic, so no two replicas get the same rest.
// A request that is being decided is already part of its process's field when the next one is decided. So two requests
// of one replica do not get the same rest either; near the end of a budget one of them may be refused although the other
// is refused, too.
// The state is a process's own memory. Redis only adds up. So what happens to Redis changes when replicas know of each
// other, and never what was spent.
// # Failover
// While Redis is away, budgets with on_redis_loss: deny refuse, and those with share continue: each of N replicas may
// add 1/N of what was left when it heard of all others last. Together they add no more than was left then. A replica hears
// of the others at each of its requests, and every five seconds: what the others have reserved since then may come on top
// of the budget, which under load is about what is in flight. A replica that has not heard of a tenant's window counts it
// as empty, so it may add 1/N of the budget. When Redis returns, the fields are written again, and the sum is right at
// once.
// Redis may return empty, or with its data of some time ago. Each call counts up a number in Redis. If a replica knows a
// higher number, or Redis has none, data were lost. Then all replicas send all their windows, which they notice within a
// second, and for 2.5 s nobody uses the sums: this counts as Redis away. Every replica looks once per second. So if
// Redis lost only calls of a single replica, and this replica is silent, the others use sums without these calls for at
// most a second.
// What a process that has died had settled stays in its field. Its reservations stop to count when the field is 30 s old;
// what its requests have used of them is not known. If Redis loses its data after that, the part of the dead process is
// lost, too. If a window has more than 64 fields, those that are older than an hour are added to the field "folded",
// one in each call. If such a process was not dead but cut off, its part counts twice in this window after its return: the
// budget is then used up early, and never exceeded.
// Without Redis in the configuration, the one replica counts in memory, and forgets at its end.
package budgets
