package calls

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// scriptLine is where Redis says in which line of a script something went wrong.
var scriptLine = regexp.MustCompile(`@user_script:(\d+)`)

// Explain adds the line of the script that an error names. When an ACL denies a command to a script, Redis tells the
// client only the number of the line.
func (s *Script) Explain(err error) error {
	m := scriptLine.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	n, _ := strconv.Atoi(m[1])
	lines := strings.Split(s.source, "\n")
	if n < 1 || n > len(lines) {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.TrimSpace(lines[n-1]))
}

// otherNodesTime is how long Load waits for the nodes of a cluster that do not have the key.
const otherNodesTime = 125 * time.Millisecond

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
	if err := r.Load(ctx, keys[0]); err != nil {
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
	if err := r.Load(loading, firstKey(unknown[0])); err != nil {
		return err
	}
	for _, cmd := range unknown {
		cmd.SetErr(nil)
	}
	return r.send(ctx, unknown, timeout)
}

// firstKey is the first key of a call of a script: it follows EVALSHA, the hash and the number of keys.
func firstKey(cmd redis.Cmder) string {
	const at = 3
	args := cmd.Args()
	if len(args) <= at {
		return ""
	}
	switch key := args[at].(type) {
	case string:
		return key
	case *string:
		return *key
	}
	return ""
}

// send is one round trip. A command that is alone is sent without a pipeline, which would allocate more than the command
// itself.
func (r *Runner) send(ctx context.Context, cmds []redis.Cmder, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch len(cmds) {
	case 0:
	case 1:
		_ = r.client.Process(ctx, cmds[0]) // the command has its error
	default:
		pipe := r.client.Pipeline()
		_ = pipe.BatchProcess(ctx, cmds...) // they are only queued
		_, err := pipe.Exec(ctx)            // the first error of any command; each has its own
		if err != nil && !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
			for _, cmd := range cmds {
				cmd.SetErr(err) // Redis refused the connection's user, which go-redis does not tell the commands
			}
		}
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !Answered(err) {
			return err
		}
	}
	return nil
}

// Load gives Redis the scripts. In a cluster the node that has the key gets them first, and its error is returned. Then
// every master gets them, because a slot may be moving to another one: nodes that hang or refuse are passed over after
// 125 ms. A node that still lacks a script says so at the next call.
func (r *Runner) Load(ctx context.Context, key string) error {
	cluster, ok := r.client.(*redis.ClusterClient)
	if !ok {
		return r.loadInto(ctx, r.client)
	}
	if node, err := cluster.MasterForKey(ctx, key); err == nil {
		if err := r.loadInto(ctx, node); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, otherNodesTime)
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
