package limits

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// othersTime is how long the nodes that do not have the keys are waited for, which leaves
// time for the question itself.
const othersTime = backgroundTime / 2

// load gives Redis the script. In a cluster that is the node that has the keys, as far as one
// knows, and then every master, because a slot may be on its way to another: nodes that hang
// or refuse are passed over, and who still lacks the script says so again.
func (l *Limiter) load(ctx context.Context) error {
	cluster, ok := l.redis.(*redis.ClusterClient)
	if !ok {
		return loadInto(ctx, l.redis)
	}
	if node, err := cluster.MasterForKey(ctx, keyLimit); err == nil {
		if err := loadInto(ctx, node); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, othersTime)
	defer cancel()
	_ = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		defer func() { _ = recover() }() // each is asked by a goroutine of its own
		return loadInto(ctx, node)
	})
	return nil
}

func loadInto(ctx context.Context, node redis.Cmdable) error {
	if err := node.ScriptLoad(ctx, limitSource).Err(); err != nil {
		return fmt.Errorf("load the script: %w", err)
	}
	return nil
}
