// Package scoring bounds the load that scoring puts on engines: the length of a text, the number of concurrent scores,
// and a pause after faults. Callers pass the time.
//
// Start at [Limiter.Acquire]. Scoring has breakers of its own, one per pool: an engine that fails to score may still
// generate, and one that crashed while scoring must not be asked again soon on any backend of the pool, because all run
// the same software.
package scoring

import (
	"errors"
	"fmt"
	"time"
)

// MaxTokens bounds prompt and draft that are scored together: engines hold the logits of all these tokens in memory.
const MaxTokens = 8192

// Score is a score that is to start.
type Score struct {
	Tokens        int // that the engine computes for it: prompt and draft together
	MaxConcurrent int // scores under way at one backend, of this replica; none at 0 (speculation.max_concurrent_scores)
}

// Why scoring is refused, as [RefusedError] tells it.
const (
	ReasonTooLong = "score_too_long" // prompt and draft are longer than MaxTokens
	ReasonBusy    = "score_busy"     // Score.MaxConcurrent scores are under way at the backend
	ReasonClosed  = "score_closed"   // the pool's breaker of scoring is open, or half-open and being tried
)

// ErrRefused matches every refusal.
var ErrRefused = errors.New("scoring refused")

// RefusedError says why a score may not start.
type RefusedError struct {
	Reason  string // one of the Reason constants
	Pool    string
	Backend bool // it concerns this backend only: another may be free

	Value, Max int           // tokens of the score, or running scores, and their limit; 0 for ReasonClosed
	RetryAfter time.Duration // ReasonClosed: time until the trial; 0 while it runs
}

// Error carries the numbers.
func (e *RefusedError) Error() string {
	switch {
	case e.Reason == ReasonTooLong:
		return fmt.Sprintf("scoring at pool %s: %d tokens, and at most %d are scored", e.Pool, e.Value, e.Max)
	case e.Reason == ReasonBusy:
		return fmt.Sprintf("scoring at pool %s: %d scores are under way at the backend, and at most %d may be", e.Pool, e.Value, e.Max)
	case e.RetryAfter > 0:
		return fmt.Sprintf("scoring at pool %s: its breaker is open for another %s", e.Pool, e.RetryAfter.Round(time.Millisecond))
	}
	return fmt.Sprintf("scoring at pool %s: its breaker is half-open and being tried", e.Pool)
}

// Is matches ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// Outcome is the outcome of a score.
type Outcome uint8

// The outcomes.
const (
	Success    Outcome = iota // it was answered, and could be read
	Fault                     // it timed out, failed with 5xx, or its scores are short, misaligned or unreadable
	EngineDied                // the connection was cut or reset, or the engine died: perhaps of scoring
	Neutral                   // it says nothing of scoring, such as a client that left or a backend that was full
)
