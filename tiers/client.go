package tiers

import "time"

// Client receives an answer. Begin is called once, before the first Write.
type Client interface {
	Begin(h ResponseHead) error
	// Write sends whole frames. It blocks until the client accepts them.
	Write(p []byte) error
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

// sink adapts a client to the cascade.
type sink struct {
	Client
	record *Record
}

var _ Sink = (*sink)(nil)

// Begin implements [Sink].
func (s *sink) Begin(h Head) error {
	rc := h.Receipt
	draft := rc.Draft
	if draft == 0 && rc.Target == 0 {
		draft = rc.First - rc.Verify
	}
	return s.Client.Begin(ResponseHead{
		Stream: h.Stream, ContentType: h.ContentType, Length: h.Length, Tier: string(rc.Tier), Acceptance: rc.Acceptance(),
		Timing: Timing{Cache: s.record.Lookup, Draft: draft, Verify: rc.Verify, Target: rc.Target, Total: rc.First},
	})
}

// discard ignores an answer.
type discard struct{}

func (discard) Begin(Head) error   { return nil }
func (discard) Write([]byte) error { return nil }
