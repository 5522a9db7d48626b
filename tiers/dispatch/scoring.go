package dispatch

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/internal/blame"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/world"
)

// When the breaker of a pool's scores opens, and for how long.
const (
	maxFaults      = 3                // consecutive faults that open it, more than one tenant provokes
	firstOpen      = 30 * time.Second // after faults; doubled after each failed trial
	engineDiedOpen = 5 * time.Minute  // at least, after the engine died
	longest        = 10 * time.Minute
	engineDiedLong = time.Hour // at most, after engines died again and again
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
// If not, the error is a [ScoreRefusedError].
func (l *ScoreLimiter) Acquire(pool, backend string, s Score, now time.Time) (leave func(scoreEnd, time.Time), err error) {
	if s.Tokens > MaxScoreTokens {
		return nil, ErrScoreTooLong
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.pools[pool]
	if b == nil {
		b = &scoreBreaker{}
		l.pools[pool] = b
	}
	if b.shut(now) {
		return nil, ErrScoreClosed
	}
	at := place{pool, backend}
	if l.running[at] >= s.MaxConcurrent {
		return nil, ErrScoreBusy
	}
	l.running[at]++
	turn := b.enter()
	return func(o scoreEnd, now time.Time) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running[at]--; l.running[at] == 0 {
			delete(l.running, at)
		}
		b.leave(s.Tenant, turn, o, now)
	}, nil
}

// Try is Acquire for a score that no request waits for, such as a probe's; leave is told its error.
func (l *ScoreLimiter) Try(pool, backend string, tokens int, w world.World) (leave func(error), err error) {
	end, err := l.Acquire(pool, backend, Score{Tokens: tokens, MaxConcurrent: math.MaxInt}, w.Now())
	if err != nil {
		_, why, until := l.State(pool)
		return nil, fmt.Errorf("%w until %s UTC: %s", err, until.UTC().Format(time.TimeOnly), why)
	}
	return scorePermit{w, end}.Report, nil
}

// State returns whether the breaker of the pool's scores is open, why, and until when. An until in the past means half-open: the next
// score is the trial, or the trial is running.
func (l *ScoreLimiter) State(pool string) (open bool, why string, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.pools[pool]
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

// shut reports whether no score may start now.
func (b *scoreBreaker) shut(now time.Time) bool {
	return b.period > 0 && (now.Before(b.until) || b.trying)
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
		b.open(max(min(2*b.period, engineDiedLong), engineDiedOpen), openEngineDied, now)
	case o == scoreDied:
		b.open(max(b.period, engineDiedOpen), openEngineDied, now)
	case !current:
	case o == scoreGood:
		if b.faults = 0; trial {
			*b = scoreBreaker{turn: b.turn + 1, blame: b.blame}
		}
	case o == scoreFault && trial:
		b.open(min(2*b.period, longest), openTrial, now)
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
	until := now.Add(period)
	if b.until.After(until) {
		until = b.until
	}
	*b = scoreBreaker{period: period, until: until, why: why, turn: b.turn + 1, blame: b.blame}
}

// Scores have limits and breakers of their own, one breaker per pool: an engine that fails to score may still generate, and
// one that crashed while scoring must not be asked again soon on any backend of the pool, because all run the same software.

// MaxScoreTokens bounds prompt and draft that are scored together: engines hold the logits of all these tokens in memory.
const MaxScoreTokens = 8192

// Score is a score that is to start.
type Score struct {
	Tenant        string
	Tokens        int // that the engine computes for it: prompt and draft together
	MaxConcurrent int // scores under way at one backend, of this replica; none at 0 (speculation.max_concurrent_scores)
}

// ScoreRefusedError is why a score may not start, in one word for receipts and metrics.
type ScoreRefusedError string

// The refusals.
const (
	ErrScoreTooLong ScoreRefusedError = "score_too_long" // prompt and draft are longer than MaxScoreTokens
	ErrScoreBusy    ScoreRefusedError = "score_busy"     // Score.MaxConcurrent scores are under way at the backend: another may be free
	ErrScoreClosed  ScoreRefusedError = "score_closed"   // the pool's breaker of scoring is open, or half-open and being tried
)

// Error returns the word.
func (e ScoreRefusedError) Error() string { return string(e) }

// scoreEnd is the outcome of a score.
type scoreEnd uint8

// The outcomes.
const (
	scoreGood    scoreEnd = iota // it was answered, and could be read
	scoreFault                   // it timed out, failed with 5xx, or its scores are short, misaligned or unreadable
	scoreDied                    // the connection was cut or reset, or the engine died: perhaps of scoring
	scoreNeutral                 // it says nothing of scoring, such as a client that left or a backend that was full
)

// scorePermit is leave to ask for a score, by scoring's own breaker.
type scorePermit struct {
	world world.World
	leave func(scoreEnd, time.Time)
}

// Report implements [Permit].
func (p scorePermit) Report(err error) { p.leave(scoreOutcome(err), p.world.Now()) }

// scoreOutcome tells what a score's end says of scoring: an engine that is gone in the midst
// of one is taken to have died of it.
func scoreOutcome(err error) scoreEnd {
	f, _ := errors.AsType[*engine.Failure](err)
	switch {
	case err == nil:
		return scoreGood
	case f == nil, f.StaleConnection, f.Kind == engine.Silent, f.Kind == engine.ClientGone, f.Kind == engine.Expired, f.Kind == engine.Exhausted,
		f.Kind == engine.Refused, f.Kind == engine.Backpressure, f.Kind == engine.Rejected, f.Kind == engine.WrongModel, f.Kind == engine.Unauthorized:
		return scoreNeutral
	case f.Kind == engine.Reset, f.Kind == engine.Cut,
		f.Kind == engine.ServerError && f.Fault != nil && strings.HasPrefix(f.Fault.Message, engineDied):
		return scoreDied
	}
	return scoreFault
}

// engineDied begins what vLLM's front end says of an engine that has just died, before it ends
// itself (its EngineDeadError).
const engineDied = "EngineCore encountered an issue"
