package dispatch

import (
	"sync"
	"time"

	"github.com/foregate/foregate/internal/blame"
)

// When the breaker of a pool's scores opens, and for how long.
const (
	maxFaults      = 3                // consecutive faults that open it, more than one tenant provokes
	firstOpen      = 30 * time.Second // after faults; doubled after each failed trial
	engineDiedOpen = 5 * time.Minute  // at least, after the engine died
	longest        = 10 * time.Minute
)

// ScoreLimiter decides which scores may start. It is safe for concurrent use.
type ScoreLimiter struct {
	mu      sync.Mutex
	pools   map[string]*scoreBreaker
	running map[place]int // running scores; no zero entries
}

// place is a backend of a pool.
type place struct{ pool, backend string }

// NewScoreLimiter returns a ScoreLimiter without any scores.
func NewScoreLimiter() *ScoreLimiter {
	return &ScoreLimiter{pools: map[string]*scoreBreaker{}, running: map[place]int{}}
}

// Acquire asks whether a score may start at the backend. If so, call leave once, with the outcome.
// If not, the error is a *[ScoreRefusedError].
func (g *ScoreLimiter) Acquire(pool, backend string, s Score, now time.Time) (leave func(scoreEnd, time.Time), err error) {
	if s.Tokens > MaxScoreTokens {
		return nil, &ScoreRefusedError{Reason: ReasonScoreTooLong, Pool: pool, Value: s.Tokens, Max: MaxScoreTokens}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.pools[pool]
	if b == nil {
		b = &scoreBreaker{}
		g.pools[pool] = b
	}
	if shut, left := b.shut(now); shut {
		return nil, &ScoreRefusedError{Reason: ReasonScoreClosed, Pool: pool, RetryAfter: left}
	}
	at := place{pool, backend}
	if n := g.running[at]; n >= s.MaxConcurrent {
		return nil, &ScoreRefusedError{Reason: ReasonScoreBusy, Pool: pool, Backend: true, Value: n, Max: s.MaxConcurrent}
	}
	g.running[at]++
	turn := b.enter()
	return func(o scoreEnd, now time.Time) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.running[at]--; g.running[at] == 0 {
			delete(g.running, at)
		}
		b.leave(s.Tenant, turn, o, now)
	}, nil
}

// State returns whether the breaker of the pool's scores is open, why, and until when. An until in the past means half-open: the next
// score is the trial, or the trial is running.
func (g *ScoreLimiter) State(pool string) (open bool, why string, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.pools[pool]
	if b == nil || b.period == 0 {
		return false, "", time.Time{}
	}
	return true, b.why, b.until
}

// Why the breaker of a pool's scores is open, as [ScoreLimiter.State] tells it.
const (
	openFaults     = "three scores in a row failed"
	openEngineDied = "an engine was lost while it scored"
	openTrial      = "the trial failed"
)

// scoreBreaker is the circuit breaker of a pool's scores: closed while period is 0, open until until, then half-open.
type scoreBreaker struct {
	faults int           // consecutive
	period time.Duration // for how long it is open, 0 while it is closed
	until  time.Time
	trying bool        // half-open, and one score is under way
	why    string      // such as openFaults
	turn   uint64      // changes with each opening and closing; outcomes of earlier turns are ignored
	blame  blame.Blame // what one tenant's drafts provoke is not held against the scores of the others
}

// shut reports whether no score may start now, and how long the breaker is still open.
func (b *scoreBreaker) shut(now time.Time) (shut bool, left time.Duration) {
	if b.period == 0 {
		return false, 0
	}
	left = max(b.until.Sub(now), 0)
	return left > 0 || b.trying, left
}

// enter starts a score. If the breaker is not closed, the score is the trial.
func (b *scoreBreaker) enter() (turn uint64) {
	b.trying = b.period > 0
	return b.turn
}

// leave ends a tenant's score of the given turn. Of earlier turns only scoreDied counts: a dying engine ends all its scores, and
// some are reported late.
func (b *scoreBreaker) leave(tenant string, turn uint64, o scoreEnd, now time.Time) {
	if o == scoreGood {
		b.blame.AnsweredWell(tenant, now)
	}
	current := turn == b.turn
	trial := current && b.period > 0
	switch {
	case o == scoreDied && trial:
		b.open(max(2*b.period, engineDiedOpen), openEngineDied, now)
	case o == scoreDied:
		b.open(max(b.period, engineDiedOpen), openEngineDied, now)
	case !current:
	case o == scoreGood:
		if b.faults = 0; trial {
			*b = scoreBreaker{turn: b.turn + 1, blame: b.blame}
		}
	case o == scoreFault && trial:
		b.open(2*b.period, openTrial, now)
	case o == scoreFault:
		if b.blame.Counts(tenant, now) {
			b.faults++
		}
		if b.faults >= maxFaults {
			b.open(firstOpen, openFaults, now)
		}
	default: // no information: another score may be the trial
		b.trying = false
	}
}

// open opens the breaker, or extends its time.
func (b *scoreBreaker) open(period time.Duration, why string, now time.Time) {
	period = min(period, longest)
	until := now.Add(period)
	if b.until.After(until) {
		until = b.until
	}
	*b = scoreBreaker{period: period, until: until, why: why, turn: b.turn + 1, blame: b.blame}
}
