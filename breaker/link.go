package breaker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/breaker/machine"
	"github.com/foregate/foregate/internal/redis/script"
)

// deadline bounds a round trip of any size.
const deadline = 250 * time.Millisecond

// link is the connection to Redis.
type link struct {
	redis   redis.UniversalClient
	scripts *script.Runner
	errors  prometheus.Counter
}

func newLink(client redis.UniversalClient, errors prometheus.Counter) *link {
	return &link{redis: client, scripts: script.NewRunner(client, syncScript, acquireScript, resultScript), errors: errors}
}

// queue puts a call of a script on one breaker into a pipeline.
func queue(ctx context.Context, p redis.Pipeliner, s *script.Script, k machine.Key, args ...any) *redis.Cmd {
	return s.EvalSha(ctx, p, []string{redisKey(k)}, args...)
}

// numbers parses a script's reply: n numbers, and the rest.
func numbers(cmd *redis.Cmd, n int) ([]int64, []any, error) {
	if err := cmd.Err(); err != nil {
		return nil, nil, err
	}
	reply, ok := cmd.Val().([]any)
	if !ok || len(reply) < n {
		return nil, nil, errors.New("a script's reply has another shape")
	}
	out := make([]int64, n)
	for i := range out {
		if out[i], ok = reply[i].(int64); !ok {
			return nil, nil, fmt.Errorf("a script's reply has a %T in place of a number", reply[i])
		}
	}
	return out, reply[n:], nil
}

// send sends a pipeline in one round trip, as [script.Runner.Exec] does. It counts connection failures. The
// reader of each command counts errors that Redis answers.
func (l *link) send(ctx context.Context, pipe redis.Pipeliner) error {
	err := l.scripts.Exec(ctx, pipe, deadline)
	if err != nil {
		l.errors.Inc()
	}
	return err
}
