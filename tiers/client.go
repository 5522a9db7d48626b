package tiers

import "time"

// Sink takes an answer. Begin is called once, before the first Write. Each Write holds whole frames, is flushed, and blocks
// until they are accepted.
type Sink interface {
	Begin(h ResponseHead) error
	Write(p []byte) error
}

// ResponseHead is the data for an answer's headers.
type ResponseHead struct {
	Stream           bool
	ContentType      string // of an answer that passes through; "" otherwise
	Length           int64  // of the body in bytes; 0 or less is unknown
	Tier, Acceptance string // "" is not told
	FromCache        bool   // it is a cached answer
	Age              time.Duration
	Timing           Timing
}

// Timing splits the time until the first byte; 0 is not reported.
type Timing struct{ Cache, Draft, Verify, Target, Total time.Duration }

// head returns what is known of the answer at its first byte.
func (r *Request) head() ResponseHead {
	draft := r.Receipt.Draft
	if draft == 0 && r.Receipt.Target == 0 {
		draft = r.First - r.Verify
	}
	return ResponseHead{
		Stream: r.Body.Stream, Tier: string(r.Tier), Acceptance: r.Acceptance(),
		Timing: Timing{Cache: r.Lookup, Draft: draft, Verify: r.Verify, Target: r.Receipt.Target, Total: r.First},
	}
}
