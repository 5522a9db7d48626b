// Package limits enforces a tenant's limits: requests per minute, tokens per minute and concurrent requests,
// over all replicas. Start at [Limiter.Enter], which checks a request, and [Reservation.Settle], which reports the
// tokens that it really used.
// # What is promised
// One script counts requests and tokens in Redis, in one round trip. A request that one of the two limits
// refuses is charged to neither. A tenant without such limits costs no round trip. No request fails because
// of Redis, and none waits for Redis longer than its budget. After five failures in a row no request waits at
// all, until Redis has answered a command in the background in time. While Redis is unavailable, a replica
// admits the tenant's limit divided by the last known number of replicas. So all replicas together admit no
// more than the limit. (Exception: a limit below the number of replicas, because each replica admits at least
// one request.) A tenant gains no second burst when Redis fails or returns, and a tenant that stays well
// below its limit is not refused because of it: see "Failover". A request has one budget for all its Redis
// calls: the time that the cache look-up has waited is subtracted. If nothing is left, the command is still
// sent to Redis, and this replica decides. Each replica counts concurrent requests for itself, without Redis.
// It admits the limit divided by the number of replicas, rounded up, at least one.
// # The algorithm
// The algorithm is GCRA, stored as a level, so that a changed limit takes effect at once. A bucket holds the
// charged amount. One minute's limit drains from it per minute. A request is admitted while the level is at
// most the slack, and then its whole amount is added. For integer amounts, no minute admits more than limit +
// slack. The slack of requests is 1/50 of the limit minus one (for limits under 200: up to three requests, up
// to 1/10), so a burst is 1.2 seconds' worth. A minute's worth would admit twice the limit within a minute.
// Token amounts are estimates until they are settled, and they are large. Their slack is three seconds'
// worth, and the last admitted request may exceed it. A smaller request has no precedence over a larger one.
// Local buckets drain slower by the slack, so that no minute admits more than the replica's share.
// # Failover
// The free part of a bucket is its burst minus its level. When Redis fails, each of N replicas continues with
// 1/N of the free part that Redis reported last, at most its own burst. When Redis returns, the replica that
// asks first raises the level there to at least the burst minus N times its own free part. If it was alone
// for longer than a few failures, it also adds its own level. So Redis may return empty or with its old data.
// No minute admits more than limit + burst, however often Redis fails, if requests are spread evenly over all
// replicas. At the failure, N parts of 1/N are no more than the free part that there was. During the failure,
// all replicas together drain no faster than the limit. At the return, the first replica speaks for all. A
// later one has admitted at most 1.2 s more at its share, which is its burst, and it adds its level. Replicas
// differ by one request: the bound may be off by one for each replica but the first. A tenant that switches,
// at the moment of the failure, to replicas that it has not used before gets at most their bursts in
// addition. A tenant is not refused because of a failure if it sends half of its limit, in pairs that
// alternate between the replicas, and 1/N of the limit has a burst of two (20 a minute or more). A replica
// sees its next pair only after its bucket has lost nearly four, so the bucket is empty again. Then nothing
// is lost at either change, and of the part that the failure left it has gained two.
// # Late answers
// If Redis does not answer a request within the budget, this replica decides, but Redis may have charged the
// request as well. That charge drains away, as do charges whose refund is lost because Redis is away: the tenant
// has a little less than its limit for at most two minutes. The script is our own because the alternatives need more round
// trips: redis_rate checks one limit per round trip (by EVAL, last released in 2023), and throttled takes
// several.
package limits
