package fleet

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// CountLive is the number of replicas whose heartbeat in this Redis is at most 1.5 s old by its clock, for a
// caller that is not a replica. A replica that has just started may be missing. It is one round trip, and
// changes nothing.
func CountLive(ctx context.Context, c redis.UniversalClient) (int, error) {
	var node redis.Cmdable = c
	if cluster, ok := c.(*redis.ClusterClient); ok { // the clock of the node that has the key
		master, err := cluster.MasterForKey(ctx, keyReplicas)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", keyReplicas, err)
		}
		node = master
	}
	p := node.Pipeline()
	values := p.ZRangeByScoreWithScores(ctx, keyReplicas, &redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: maxMembers})
	clock := p.Time(ctx)
	if _, err := p.Exec(ctx); err != nil {
		return 0, fmt.Errorf("%s: %w", keyReplicas, err)
	}
	now, n := clock.Val().UnixMilli(), 0
	for _, z := range values.Val() {
		id, _ := z.Member.(string)
		if age := float64(now) - z.Score; validReplica(id) && age < float64(goneAfter.Milliseconds()) && age >= -slewed {
			n++
		}
	}
	return n, nil
}

// slewed is how many ms a clock may be set back without counting as a jump, as in beat.lua.
const slewed = 100
