// Package usage counts what tenants use: requests, tokens and cost, by UTC day, tenant and route, over all replicas.
// Start at [Meter]. A request adds its counts in memory ([Meter.Add]); nothing on its way waits for Redis. [Meter.Run]
// writes them to Redis every few seconds, and [Meter.Read] sums what all replicas have written.
//
// # What is in Redis
//
// One hash per day. A replica process reports its own rows as absolute numbers, so a repeated report counts once, and a
// Redis that comes back empty is filled again. When the day is over, or when the process stops, it settles: its rows are
// added to rows that all processes share, and its own are removed. Every report and settlement has a sequence number of
// its process, which is in the same hash: the script ignores a number that the hash already has. So a settlement whose
// reply was lost is repeated with the same number and the same values, and counts once.
//
// # Bounds
//
// Numbers are integers, money in billionths of a US dollar. A process holds at most maxRows rows per day and maxHeldRows
// in all; further tenants share one row per route, [Others]. A hash has at most 2·maxFields fields. Days are kept for
// [MaxDays]; a full Redis must not evict them, so they have no TTL and replicas delete old ones.
package usage
