package fleet

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// CountLive is how many replicas told this Redis within the last 1.5 s, by its clock, that they live: for somebody who is
// none of them. A replica that has just come may not have told it yet. It is a round trip, and changes nothing.
func CountLive(ctx context.Context, c redis.UniversalClient) (int, error) {
	var node redis.Cmdable = c
	if cluster, ok := c.(*redis.ClusterClient); ok { // the clock is that of the node that has the key
		master, err := cluster.MasterForKey(ctx, keyReplicas)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", keyReplicas, err)
		}
		node = master
	}
	p := node.Pipeline()
	told := p.ZRangeByScoreWithScores(ctx, keyReplicas, &redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: maxMembers})
	clock := p.Time(ctx)
	if _, err := p.Exec(ctx); err != nil {
		return 0, fmt.Errorf("%s: %w", keyReplicas, err)
	}
	now, n := clock.Val().UnixMilli(), 0
	for _, z := range told.Val() {
		id, _ := z.Member.(string)
		if age := float64(now) - z.Score; validReplica(id) && age < float64(goneAfter.Milliseconds()) && age >= -slewed {
			n++
		}
	}
	return n, nil
}

// slewed is how many ms a clock may be put back without a jump, as in beat.lua.
const slewed = 100
