package dispatch

import (
	"fmt"
	"time"
)

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

// Why scoring is refused, as [ScoreRefusedError] tells it.
const (
	ReasonScoreTooLong = "score_too_long" // prompt and draft are longer than MaxScoreTokens
	ReasonScoreBusy    = "score_busy"     // Score.MaxConcurrent scores are under way at the backend
	ReasonScoreClosed  = "score_closed"   // the pool's breaker of scoring is open, or half-open and being tried
)

// ScoreRefusedError says why a score may not start.
type ScoreRefusedError struct {
	Reason  string // one of the Reason constants
	Pool    string
	Backend bool // it concerns this backend only: another may be free

	Value, Max int           // tokens of the score, or running scores, and their limit; 0 for ReasonScoreClosed
	RetryAfter time.Duration // ReasonScoreClosed: time until the trial; 0 while it runs
}

// Error carries the numbers.
func (e *ScoreRefusedError) Error() string {
	switch {
	case e.Reason == ReasonScoreTooLong:
		return fmt.Sprintf("scoring at pool %s: %d tokens, and at most %d are scored", e.Pool, e.Value, e.Max)
	case e.Reason == ReasonScoreBusy:
		return fmt.Sprintf("scoring at pool %s: %d scores are under way at the backend, and at most %d may be", e.Pool, e.Value, e.Max)
	case e.RetryAfter > 0:
		return fmt.Sprintf("scoring at pool %s: its breaker is open for another %s", e.Pool, e.RetryAfter.Round(time.Millisecond))
	}
	return fmt.Sprintf("scoring at pool %s: its breaker is half-open and being tried", e.Pool)
}

// scoreEnd is the outcome of a score.
type scoreEnd uint8

// The outcomes.
const (
	scoreGood    scoreEnd = iota // it was answered, and could be read
	scoreFault                   // it timed out, failed with 5xx, or its scores are short, misaligned or unreadable
	scoreDied                    // the connection was cut or reset, or the engine died: perhaps of scoring
	scoreNeutral                 // it says nothing of scoring, such as a client that left or a backend that was full
)
