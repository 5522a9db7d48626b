package scoring

import (
	"sync"
	"time"
)

// When a pool's breaker opens, and for how long.
const (
	maxFaults      = 3                // consecutive faults that open a breaker
	firstOpen      = 30 * time.Second // after faults; doubled after each failed trial
	engineDiedOpen = 5 * time.Minute  // at least, after the engine died
	longest        = 10 * time.Minute
)

// forgotten is the idle time after which a pool's breaker is dropped: the pool has left the configuration.
const forgotten = time.Hour

// Limiter decides which scores may start. It is safe for concurrent use.
type Limiter struct {
	mu      sync.Mutex
	pools   map[string]*breaker
	running map[place]int // running scores; no zero entries
}

// place is a backend of a pool.
type place struct{ pool, backend string }

// NewLimiter returns a Limiter without any scores.
func NewLimiter() *Limiter {
	return &Limiter{pools: map[string]*breaker{}, running: map[place]int{}}
}

// Acquire asks whether a score may start at the backend. If so, call leave with the outcome; only the first call counts.
// If not, the error is a *[RefusedError].
func (g *Limiter) Acquire(pool, backend string, s Score, now time.Time) (leave func(Outcome, time.Time), err error) {
	if s.Tokens > MaxTokens {
		return nil, &RefusedError{Reason: ReasonTooLong, Pool: pool, Value: s.Tokens, Max: MaxTokens}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.breaker(pool, now)
	if shut, left := b.shut(now); shut {
		return nil, &RefusedError{Reason: ReasonClosed, Pool: pool, RetryAfter: left}
	}
	at := place{pool, backend}
	if n := g.running[at]; n >= s.MaxConcurrent {
		return nil, &RefusedError{Reason: ReasonBusy, Pool: pool, Backend: true, Value: n, Max: s.MaxConcurrent}
	}
	g.running[at]++
	turn := b.enter()
	done := false
	return func(o Outcome, now time.Time) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if done {
			return
		}
		done = true
		if g.running[at]--; g.running[at] == 0 {
			delete(g.running, at)
		}
		b.leave(turn, o, now)
	}, nil
}

// State returns whether the pool's breaker is open, why, and until when. An until in the past means half-open: the next
// score is the trial, or the trial is running.
func (g *Limiter) State(pool string) (open bool, why string, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.pools[pool]
	if b == nil || b.period == 0 {
		return false, "", time.Time{}
	}
	return true, b.why, b.until
}

// breaker returns the pool's breaker, a new one if there is none. The caller holds mu.
func (g *Limiter) breaker(pool string, now time.Time) *breaker {
	b := g.pools[pool]
	if b == nil {
		for name, old := range g.pools {
			if now.Sub(old.lastUsed) > forgotten {
				delete(g.pools, name)
			}
		}
		b = &breaker{}
		g.pools[pool] = b
	}
	b.lastUsed = now
	return b
}

// Why a breaker is open, as [Limiter.State] tells it.
const (
	OpenFaults     = "three scores in a row failed"
	OpenEngineDied = "an engine was lost while it scored"
	OpenTrial      = "the trial failed"
)

// breaker is a pool's circuit breaker: closed while period is 0, open until until, then half-open.
type breaker struct {
	faults   int           // consecutive
	period   time.Duration // for how long it is open, 0 while it is closed
	until    time.Time
	trying   bool   // half-open, and one score is under way
	why      string // one of the Why constants
	turn     uint64 // changes with each opening and closing; outcomes of earlier turns are ignored
	lastUsed time.Time
}

// shut reports whether no score may start now, and how long the breaker is still open.
func (b *breaker) shut(now time.Time) (shut bool, left time.Duration) {
	if b.period == 0 {
		return false, 0
	}
	left = max(b.until.Sub(now), 0)
	return left > 0 || b.trying, left
}

// enter starts a score. If the breaker is not closed, the score is the trial.
func (b *breaker) enter() (turn uint64) {
	b.trying = b.period > 0
	return b.turn
}

// leave ends a score of the given turn. Of earlier turns only EngineDied counts: a dying engine ends all its scores, and
// some are reported late.
func (b *breaker) leave(turn uint64, o Outcome, now time.Time) {
	current := turn == b.turn
	trial := current && b.period > 0
	switch {
	case o == EngineDied && trial:
		b.open(max(2*b.period, engineDiedOpen), OpenEngineDied, now)
	case o == EngineDied:
		b.open(max(b.period, engineDiedOpen), OpenEngineDied, now)
	case !current:
	case o == Success:
		if b.faults = 0; trial {
			*b = breaker{turn: b.turn + 1, lastUsed: b.lastUsed}
		}
	case o == Fault && trial:
		b.open(2*b.period, OpenTrial, now)
	case o == Fault:
		if b.faults++; b.faults >= maxFaults {
			b.open(firstOpen, OpenFaults, now)
		}
	default: // no information: another score may be the trial
		b.trying = false
	}
}

// open opens the breaker, or extends its time.
func (b *breaker) open(period time.Duration, why string, now time.Time) {
	period = min(period, longest)
	until := now.Add(period)
	if b.until.After(until) {
		until = b.until
	}
	*b = breaker{period: period, until: until, why: why, turn: b.turn + 1, lastUsed: b.lastUsed}
}
