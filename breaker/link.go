package breaker

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
)

// keyBreaker, with "<pool>/<backend>" behind it, is a hash: the fleet's state of one breaker (st 0 closed, 1
// half-open, 2 open; ou open until; n the openings in a row; ur it could not be reached), the lease of the testing
// replica (pt token, pu until, ps successes) and, while it is closed, the evidence of the last ten seconds (t:<s>
// finished calls, f:<s> faults, u:<s> of these: not reached).
//
// The keys share the hash tag {fg}, so that in a cluster one node answers a tick. A closed idle breaker has no key,
// and one that nobody writes ends after ten minutes: far longer than its content is valid.
const keyBreaker = "foregate:{fg}:breaker:"

// redisKey is the key of one breaker.
func redisKey(k Key) string { return keyBreaker + k.Pool + "/" + k.Backend }

// Every script uses one key.
var (
	//go:embed sync.lua
	syncSource string
	//go:embed acquire.lua
	acquireSource string
	//go:embed result.lua
	resultSource string

	syncScript    = script.New(syncSource)
	acquireScript = script.New(acquireSource)
	resultScript  = script.New(resultSource)
)

// deadline bounds a round trip of any size.
const deadline = 250 * time.Millisecond

// link is the connection to Redis.
type link struct {
	scripts *script.Runner
	errors  prometheus.Counter
}

func newLink(client redis.UniversalClient, errors prometheus.Counter) *link {
	return &link{scripts: script.NewRunner(client, syncScript, acquireScript, resultScript), errors: errors}
}

// queue puts a call of a script on one breaker into a pipeline.
func queue(ctx context.Context, p redis.Pipeliner, s *script.Script, k Key, args ...any) *redis.Cmd {
	return s.EvalSha(ctx, p, []string{redisKey(k)}, args...)
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

// one runs a script that returns a number.
func (l *link) one(ctx context.Context, run *script.Script, k Key, args ...any) (int64, error) {
	pipe := l.scripts.Pipeline()
	cmd := queue(ctx, pipe, run, k, args...)
	if err := l.send(ctx, pipe); err != nil {
		return 0, err
	}
	n, err := cmd.Int64()
	if err != nil {
		l.errors.Inc()
	}
	return n, err
}

// wrongKeyError is an error of Redis about a key.
type wrongKeyError struct{ reply string }

func (e *wrongKeyError) Error() string { return e.reply }

// viewOf parses the reply of the script sync that arrived at now. Values out of range count as closed, or
// over.
func viewOf(cmd *redis.Cmd, now time.Time) (view, error) {
	reply, err := cmd.Slice()
	if err != nil {
		return view{}, err
	}
	var n [4]int64
	if len(reply) != len(n)+1 {
		return view{}, fmt.Errorf("a script's reply has %d parts", len(reply))
	}
	for i := range n {
		number, ok := reply[i].(int64)
		if !ok {
			return view{}, fmt.Errorf("a script's reply has a %T in place of a number", reply[i])
		}
		n[i] = number
	}
	if wrong, ok := reply[len(n)].(string); !ok {
		return view{}, errors.New("a script's reply does not end with a text")
	} else if wrong != "" {
		return view{}, &wrongKeyError{wrong}
	}
	v := view{Cut: n[3] == 1, At: now}
	left := time.Duration(0)
	switch n[0] {
	case 1:
		v.State, left = HalfOpen, ms(n[2])
	case 2:
		v.State, left = Open, ms(n[1])
	}
	v.Until = now.Add(left)
	return v, nil
}

// ms converts a script's time, within its valid range.
func ms(n int64) time.Duration {
	return time.Duration(min(max(n, 0), 2*maxFleetOpen.Milliseconds())) * time.Millisecond
}

// flag encodes a boolean for scripts.
func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
