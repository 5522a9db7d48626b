package pipeline

import (
	"time"

	"github.com/foregate/foregate/tiers"
)

// Client is where an answer goes. Begin is called once, before the first Write.
type Client interface {
	Begin(h ResponseHead) error
	// Write sends whole frames. It waits for the client.
	Write(p []byte) error
	// Detach lets the answer go on without waiting for the client: all that follows is written to what it returns.
	Detach() AsyncClient
	// BreakOff tells the client of a stream why its answer ends here.
	BreakOff(err error)
}

// AsyncClient is a client that nobody waits for.
type AsyncClient interface {
	// Write hands frames over. It does not wait; what a client that is too far behind does not take is lost.
	Write(p []byte)
	// Close waits until the client has all, or takes no more; the error says why.
	Close() error
}

// ResponseHead is what the headers of an answer say of it.
type ResponseHead struct {
	Stream           bool
	ContentType      string // of an answer that passes through; "" otherwise
	Length           int64  // of the body in bytes; 0 or less is unknown
	Tier, Acceptance string // "" is not told
	FromCache        bool   // it is a kept answer
	Age              time.Duration
	Timing           Timing
}

// Timing is where the time until the first byte went; 0 is not told.
type Timing struct{ Cache, Draft, Verify, Target, Total time.Duration }

// sink lets the cascade write to a client.
type sink struct {
	Client
	record *Record
}

var _ tiers.Sink = (*sink)(nil)

// Begin implements tiers.Sink.
func (s *sink) Begin(h tiers.Head) error {
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

// discard takes what nobody reads.
type discard struct{}

func (discard) Begin(tiers.Head) error { return nil }
func (discard) Write([]byte) error     { return nil }
