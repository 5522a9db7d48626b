package limits

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// mostLookups bounds the questions under way, to as many as the client has connections;
	// what is beyond is counted locally, and told afterwards.
	mostLookups = 32
	// failuresInARow are those after which Redis is not asked for a while.
	failuresInARow = 5
	// pause is that while, and up to half as long again, so that replicas do not come back
	// together, but all within the 1.2 s that a burst of requests is worth.
	pause = 700 * time.Millisecond
	// A fall within shortStay of the return doubles the pause, up to mostPause, so that a Redis
	// which is about as late as the budget does not come and go every second.
	mostPause = 8 * time.Second
	shortStay = 5 * time.Second
	// backgroundTime bounds a round trip that nobody waits for.
	backgroundTime = 250 * time.Millisecond
)

// answer is a verdict on one request.
type answer struct {
	refused          Kind // "" when it was let in
	demoted          bool // too much of priority high
	requests, tokens float64
}

// errKey is what is wrong with a tenant's key or the answer; Redis itself is well.
var errKey = errors.New("the key is not a limit's")

// parse reads the script's reply.
func parse(reply any) (answer, error) {
	list, ok := reply.([]any)
	if !ok || len(list) != 5 {
		return answer{}, fmt.Errorf("%w: the script's reply has another shape", errKey)
	}
	if text, ok := list[0].(string); !ok || text != "" {
		return answer{}, fmt.Errorf("%w: %.64q", errKey, text)
	}
	var n [4]int64
	for i := range n {
		if n[i], ok = list[i+1].(int64); !ok || n[i] < 0 {
			return answer{}, fmt.Errorf("%w: the script's reply has other types", errKey)
		}
	}
	a := answer{demoted: n[1] == 1, requests: float64(n[2]) / 1000, tokens: float64(n[3]) / 1000}
	switch n[0] {
	case 0:
	case 1:
		a.refused = Requests
	case 2:
		a.refused = Tokens
	default:
		return answer{}, fmt.Errorf("%w: verdict %d", errKey, n[0])
	}
	return a, nil
}

// How the script is asked.
const (
	howAsk    = "ask"
	howSettle = "settle" // charge, or give back, whatever is owed
)

// charge is what the script is told to count.
type charge struct {
	requests, tokens, high int
	how                    string
	untold
}

// untold is what is owed to a replica that counted for itself: added, and the least that is
// owed then.
type untold struct{ requests, tokens, leastRequests, leastTokens float64 }

// evaluate sends the script, in c's pipeline if c is one.
func evaluate(ctx context.Context, c redis.Scripter, key string, w laws, n charge) *redis.Cmd {
	return limitScript.EvalSha(ctx, c, []string{key},
		w.requests.cap, w.requests.slack, w.tokens.cap, w.tokens.slack, w.high.cap, w.high.slack,
		n.requests, n.tokens, n.high, n.how, mostOwed, expiry.Milliseconds(),
		n.untold.requests, n.untold.tokens, n.leastRequests, n.leastTokens)
}

// ask is one round trip; two more where Redis does not know the script.
func (l *Limiter) ask(ctx context.Context, key string, w laws, n charge) (answer, error) {
	reply, err := evaluate(ctx, l.redis, key, w, n).Result()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		if err := l.load(ctx); err != nil {
			return answer{}, err
		}
		reply, err = evaluate(ctx, l.redis, key, w, n).Result()
	}
	if err != nil {
		return answer{}, err
	}
	return parse(reply)
}

// lookup asks Redis without waiting longer than the budget, and says how it went; but for
// shared, this replica must count for itself. The command itself is not cut off: a deadline would close its
// connection, and a Redis that is a little late would see nothing but new ones.
func (l *Limiter) lookup(ctx context.Context, key string, w laws, n charge) (a answer, result string) {
	defer func() { l.metrics.redis.WithLabelValues(result).Inc() }()
	if l.guard.away.Load() {
		return answer{}, resultSkipped
	}
	select {
	case l.slots <- struct{}{}:
	default:
		return answer{}, resultBusy
	}
	type outcome struct {
		answer
		err error
	}
	came := make(chan outcome, 1)
	detached := context.WithoutCancel(ctx)
	go func() {
		defer func() { <-l.slots }()
		defer func() {
			if p := recover(); p != nil { // the client's, at what a server said
				came <- outcome{err: fmt.Errorf("panic: %v", p)}
			}
		}()
		a, err := l.ask(detached, key, w, n)
		came <- outcome{a, err}
	}()
	timer := time.NewTimer(l.budget())
	defer timer.Stop()
	select {
	case got := <-came:
		switch {
		case got.err == nil:
			l.guard.answered()
			return got.answer, resultShared
		case errors.Is(got.err, errKey):
			l.guard.answered()
			return answer{}, resultWrong
		}
		l.failed(got.err)
		return answer{}, resultError
	case <-timer.C:
		l.failed(errLate)
		return answer{}, resultLate
	}
}

var errLate = errors.New("no answer within the budget")

// failed counts a failure, and tells once when it was the last that requests wait for.
func (l *Limiter) failed(err error) {
	if l.guard.failed(l.now()) {
		l.metrics.shared.Set(0)
		l.log.Warn().Err(err).Int("replicas", l.replicas()).Msg("tenants' limits are counted by this replica for itself: Redis does not answer")
	}
}

// guard keeps requests from a Redis that does not answer.
type guard struct {
	away atomic.Bool // written under mu

	mu       sync.Mutex
	failures int // in a row
	until    time.Time
	pause    time.Duration // of this time away
	back     time.Time     // when the way was opened last
}

func (g *guard) answered() {
	g.mu.Lock()
	g.failures = 0
	g.mu.Unlock()
}

// failed says whether this failure closed the way.
func (g *guard) failed(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures++
	if g.failures < failuresInARow || g.away.Load() {
		return false
	}
	if g.back.IsZero() || now.Sub(g.back) >= shortStay {
		g.pause = pause
	} else {
		g.pause = min(2*g.pause, mostPause)
	}
	g.rest(now)
	g.away.Store(true)
	return true
}

// rest has Redis left alone for a pause. The caller holds mu.
func (g *guard) rest(now time.Time) { g.until = now.Add(g.pause + rand.N(g.pause/2)) }

// due says whether Redis should be tried again.
func (g *guard) due(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.away.Load() && !now.Before(g.until)
}

// tried opens the way after a good try, or waits anew.
func (g *guard) tried(good bool, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if good {
		g.failures, g.back = 0, now
		g.away.Store(false)
		return
	}
	g.rest(now)
}
