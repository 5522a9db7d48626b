package calls

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/panics"
)

// Script is a Lua script.
type Script struct {
	source string
	sha    string // of the source, by which Redis knows it
}

// NewScript returns a script.
func NewScript(source string) *Script { return &Script{source, redis.NewScript(source).Hash()} }

// EvalSha runs the script, or puts it into c where that is a pipeline. NOSCRIPT is the caller's, see [Runner].
func (s *Script) EvalSha(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd {
	return c.EvalSha(ctx, s.sha, keys, args...)
}

// nodesTime is how long Load waits for the nodes of a cluster.
const nodesTime = 125 * time.Millisecond

// Runner runs a package's scripts in one Redis. It is safe for concurrent use.
type Runner struct {
	client  redis.UniversalClient
	scripts []*Script
}

// NewRunner returns a runner of these scripts; it sends nothing.
func NewRunner(client redis.UniversalClient, scripts ...*Script) *Runner {
	return &Runner{client: client, scripts: scripts}
}

// Run runs a script: one round trip, or three where Redis does not know the script. There must be a key.
func (r *Runner) Run(ctx context.Context, s *Script, keys []string, args ...any) *redis.Cmd {
	cmd := s.EvalSha(ctx, r.client, keys, args...)
	if !Unknown(cmd.Err()) {
		return cmd
	}
	if err := r.Load(ctx); err != nil {
		cmd.SetErr(err)
		return cmd
	}
	return s.EvalSha(ctx, r.client, keys, args...)
}

// Pipeline returns an empty pipeline for [Runner.Exec].
func (r *Runner) Pipeline() redis.Pipeliner { return r.client.Pipeline() }

// Exec sends what a pipeline has queued in one round trip. Calls of scripts that Redis does not know are sent once more,
// after the scripts were loaded. Each of the three round trips takes no longer than timeout.
// The error is the connection's, after which nobody knows what was done, or that of the loading. Redis' answers, also
// errors, are in the commands.
func (r *Runner) Exec(ctx context.Context, pipe redis.Pipeliner, timeout time.Duration) error {
	cmds := pipe.Cmds()
	if err := r.send(ctx, cmds, timeout); err != nil {
		return err
	}
	isKnown := func(cmd redis.Cmder) bool { return !Unknown(cmd.Err()) }
	if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return !isKnown(cmd) }) {
		return nil
	}
	unknown := slices.DeleteFunc(slices.Clone(cmds), isKnown)
	loading, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := r.Load(loading); err != nil {
		return err
	}
	for _, cmd := range unknown {
		cmd.SetErr(nil)
	}
	return r.send(ctx, unknown, timeout)
}

// send is one round trip.
func (r *Runner) send(ctx context.Context, cmds []redis.Cmder, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pipe := r.client.Pipeline()
	_ = pipe.BatchProcess(ctx, cmds...) // they are only queued
	_, err := pipe.Exec(ctx)            // the first error of any command; each has its own
	if err != nil && !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
		for _, cmd := range cmds {
			cmd.SetErr(err) // Redis refused the connection's user, which go-redis does not tell the commands
		}
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !Answered(err) {
			return err
		}
	}
	return nil
}

// Load gives Redis the scripts, in a cluster every master, because a slot may be moving to another one. There it passes over
// nodes that refuse, and after 125 ms those that hang: a node that still lacks a script says so at the next call.
func (r *Runner) Load(ctx context.Context) error {
	cluster, ok := r.client.(*redis.ClusterClient)
	if !ok {
		return r.loadInto(ctx, r.client)
	}
	ctx, cancel := context.WithTimeout(ctx, nodesTime)
	defer cancel()
	_ = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		defer panics.Recover(ctx) // it runs in a goroutine of the client
		return r.loadInto(ctx, node)
	})
	return nil
}

func (r *Runner) loadInto(ctx context.Context, node redis.Cmdable) error {
	_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, s := range r.scripts {
			p.ScriptLoad(ctx, s.source)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load the scripts: %w", err)
	}
	return nil
}

// Answered reports whether an error is Redis' answer to one command, not a failure of the connection.
func Answered(err error) bool {
	if err == nil {
		return false
	}
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// Unknown reports whether an error says that Redis does not know a script.
func Unknown(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }
