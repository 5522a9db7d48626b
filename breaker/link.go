package breaker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/breaker/machine"
	"github.com/foregate/foregate/panics"
)

// deadline is that of a round trip, however much is in it.
const deadline = 250 * time.Millisecond

// link is the way to Redis.
type link struct {
	redis  redis.UniversalClient
	errors prometheus.Counter
}

// command is one command of a round trip.
type command struct {
	send func(context.Context, redis.Pipeliner) redis.Cmder
	cmd  redis.Cmder
}

// run is a call of a script.
func run(s *redis.Script, k machine.Key, args ...any) command {
	return command{send: func(ctx context.Context, p redis.Pipeliner) redis.Cmder {
		return s.EvalSha(ctx, p, []string{redisKey(k)}, args...)
	}}
}

// numbers takes a script's reply apart: n numbers, and what follows.
func (a *command) numbers(n int) ([]int64, []any, error) {
	if err := a.cmd.Err(); err != nil {
		return nil, nil, err
	}
	c, ok := a.cmd.(*redis.Cmd)
	if !ok {
		return nil, nil, fmt.Errorf("a %T for a script", a.cmd)
	}
	reply, ok := c.Val().([]any)
	if !ok || len(reply) < n {
		return nil, nil, errors.New("a script's reply has another shape")
	}
	out := make([]int64, n)
	for i := range out {
		if out[i], ok = reply[i].(int64); !ok {
			return nil, nil, errors.New("a script's reply has other types")
		}
	}
	return out, reply[n:], nil
}

// send sends commands in one round trip. Where Redis does not know the scripts (it was restarted,
// or another took over), it loads them and sends again what was not done. An error is one of
// the connection, after which nobody knows what was done; refusals are in the commands.
func (l *link) send(ctx context.Context, commands []command) error {
	all := make([]*command, len(commands))
	for i := range commands {
		all[i] = &commands[i]
	}
	if err := l.round(ctx, all); err != nil {
		return err
	}
	var again []*command
	for _, a := range all {
		if redis.HasErrorPrefix(a.cmd.Err(), "NOSCRIPT") {
			again = append(again, a)
		}
	}
	if len(again) == 0 {
		return nil
	}
	if err := l.load(ctx); err != nil {
		l.errors.Inc()
		return err
	}
	return l.round(ctx, again)
}

// round is one round trip.
func (l *link) round(ctx context.Context, commands []*command) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	pipe := l.redis.Pipeline()
	for _, a := range commands {
		a.cmd = a.send(ctx, pipe)
	}
	_, _ = pipe.Exec(ctx) // the first error of any ask; each has its own
	for _, a := range commands {
		if err := a.cmd.Err(); err != nil && !refusal(err) {
			l.errors.Inc()
			return err
		}
	}
	return nil
}

// refusal says whether an error is the server's answer to one command.
func refusal(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// load gives Redis the scripts. In a cluster that is the node that has the keys, as far as
// one knows, and then every master, because a slot may be on its way to another: nodes that
// hang or refuse are passed over, and who still lacks a script says so again.
func (l *link) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	cluster, ok := l.redis.(*redis.ClusterClient)
	if !ok {
		return loadInto(ctx, l.redis)
	}
	if node, err := cluster.MasterForKey(ctx, keyBreaker); err == nil {
		if err := loadInto(ctx, node); err != nil && refusal(err) {
			return err
		}
	}
	_ = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		defer panics.Recover(ctx) // each is asked by a goroutine of its own
		return loadInto(ctx, node)
	})
	return nil
}

func loadInto(ctx context.Context, node redis.Cmdable) error {
	_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, source := range sources {
			p.ScriptLoad(ctx, source)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load the scripts: %w", err)
	}
	return nil
}
