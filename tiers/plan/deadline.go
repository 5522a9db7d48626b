package plan

import (
	"time"

	"github.com/foregate/foregate/tiers/openai"
)

const (
	// promptUnit is the prompt length in tokens up to which the first-byte timeouts hold.
	promptUnit = 4000
	// defaultMinRate is the setting's default, and stands in where none is given.
	defaultMinRate = 5
	// deadlineMargin is what a request may wait for capacity, be tried again and be judged, beside the
	// time for its prompt and its answer.
	deadlineMargin = time.Minute
	// maxGenerating bounds the time for an answer's tokens, so that no sum overflows: the longest
	// deadline that can be set.
	maxGenerating = 24 * time.Hour
)

// Deadline is how long a request may take from its begin to its last byte: at least Total, at most the
// larger of Total and MaxTotal. Between these it is the first-byte timeout of the target, the time
// for its answer at MinTokensPerSecond, and a margin of a minute. The prompt has so many tokens; the answer has
// at most so many, and -1 is one that only the context bounds: it may take MaxTotal.
func (t Timeouts) Deadline(prompt, answer int) time.Duration {
	switch {
	case t.MaxTotal <= t.Total:
		return t.Total
	case answer < 0:
		return t.MaxTotal
	}
	need := FirstByte(t.TargetFirstToken, prompt) + t.generating(answer) + deadlineMargin
	return min(max(need, t.Total), t.MaxTotal)
}

// generating is how long so many tokens take at the slowest.
func (t Timeouts) generating(tokens int) time.Duration {
	rate := t.MinTokensPerSecond
	if rate <= 0 {
		rate = defaultMinRate
	}
	return time.Duration(min(float64(tokens)/rate*float64(time.Second), float64(maxGenerating)))
}

// DirectFirstByte is how long to wait for the first byte of one tier's own answer, 0
// for as long as the request lives. An answer that is not streamed comes all at
// once, so its whole generation counts.
func (t Timeouts) DirectFirstByte(tier Tier, r *openai.Request) time.Duration {
	base := t.TargetFirstToken
	if tier == Draft {
		base = t.DraftFirstToken
	}
	wait := FirstByte(base, r.PromptTokens)
	if r.Stream {
		return wait
	}
	return t.WholeAnswer(wait, r)
}

// WholeAnswer is how long to wait for an answer in one piece whose prompt may take as long as wait:
// as long as its tokens need at the slowest, 0 for as long as the request lives.
func (t Timeouts) WholeAnswer(wait time.Duration, r *openai.Request) time.Duration {
	limit := AnswerLimit(r)
	if limit < 0 {
		return 0
	}
	if wait += t.generating(limit); wait >= t.Deadline(r.PromptTokens, limit) {
		return 0
	}
	return wait
}

// AnswerLimit is the most tokens of a request's answer, -1 where only the context bounds them.
func AnswerLimit(r *openai.Request) int {
	if r.MaxTokens < 0 && r.Kind == openai.Chat {
		return -1
	}
	return r.Limit()
}

// FirstByte scales a first-byte timeout with a prompt of so many tokens: it holds up
// to 4,000, and longer prompts get proportionally more.
func FirstByte(base time.Duration, promptTokens int) time.Duration {
	return time.Duration(float64(base) * max(1, float64(promptTokens)/promptUnit))
}
