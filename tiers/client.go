package tiers

import "time"

// Sink takes an answer. Begin is called once, before the first Write. Each Write holds whole frames, is flushed, and blocks
// until they are accepted.
type Sink interface {
	Begin(h ResponseHead) error
	Write(p []byte) error
}

// Client receives an answer.
type Client interface {
	Sink
	// Detach returns a client for the rest of the answer, on which writes do not block.
	Detach() AsyncClient
	// BreakOff tells the client of a stream why its answer ends here.
	BreakOff(err error)
}

// AsyncClient is a client whose writes do not block.
type AsyncClient interface {
	// Write queues frames. It does not block; if the client lags too far behind, the frames are dropped.
	Write(p []byte)
	// Close waits until the client has received everything, or accepts no more; then it returns the reason.
	Close() error
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

// discard ignores an answer.
type discard struct{}

func (discard) Begin(ResponseHead) error { return nil }
func (discard) Write([]byte) error       { return nil }
