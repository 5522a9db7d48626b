package tiers

import (
	"math"
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/accept"
)

// Mode says how a route uses its draft pool.
type Mode string

// The modes of this release (setting speculation.mode).
const (
	ModeOff        Mode = "off"        // every request goes to the target
	ModeConfidence Mode = "confidence" // a draft is kept when its own logprobs are good enough
)

// Config is what an operator may tune of one route's cascade, live. A request
// reads it once, when it is planned.
type Config struct {
	Mode   Mode
	Accept accept.Config

	HoldbackTokens int           // a stream's tokens held back before the decision (speculation.holdback_tokens, 0 … 1024)
	Holdback       time.Duration // the decision is taken after this long at the latest (speculation.holdback_ms, 0 … 60000)
	MaxPrompt      int           // prompts estimated longer than this many tokens are not drafted (speculation.max_prompt_tokens, 0 … 1000000)

	RetryAttempts int     // further backends tried after the first, before the first byte (retry.attempts, 0 … 10)
	RetryBudget   float64 // share of requests in flight that may be retries, never below 10 (retry.budget, 0 … 1)

	Timeouts Timeouts
}

// Judged says in a few characters how drafts are judged: equal for equal rules.
func (c *Config) Judged() string {
	b := append(make([]byte, 0, 64), c.Mode...)
	a := &c.Accept
	for _, v := range [...]accept.Nats{a.Threshold, a.MeanOffset, a.WindowOffset, a.EntropyOffset} {
		b = strconv.AppendUint(append(b, ' '), math.Float64bits(float64(v)), 16) // the decimals take ten times as long
	}
	return string(b)
}

// Timeouts bound every phase of an upstream call.
type Timeouts struct {
	DraftFirstByte  time.Duration // timeout.draft_first_byte: the draft's first token
	TargetFirstByte time.Duration // timeout.target_first_byte: the target's first token, for a prompt of up to 4,000 tokens; longer prompts get proportionally more
	Chunk           time.Duration // timeout.chunk: the longest silence inside a stream
	Total           time.Duration // timeout.total: the whole request
}
