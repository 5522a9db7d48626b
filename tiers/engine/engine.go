// Package engine is the vocabulary between the gateway and its engines: a request to an engine ([Call]), one attempt at
// one backend ([Attempt]), the interface that makes attempts ([Upstream]), the streamed answer ([Stream]) and the reason
// if there is none ([Failure]).
//
// The gateway's Upstream makes an HTTP exchange (tiers/upstream); the lab's uses the simulator's scheduler.
package engine

import (
	"context"
	"net/http"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/openai"
)

// Upstream makes attempts.
type Upstream interface {
	// Open sends an attempt and waits for its first byte: the first event of a stream, or the whole
	// of another answer, which is then where the call's Into points. The error is a *Failure that
	// names no pool and backend; then nothing is left open. The end of ctx ends the exchange, after
	// Open has returned, too.
	Open(ctx context.Context, a *Attempt) (Stream, error)
}

// Stream is a running exchange with an engine. It is for one goroutine.
type Stream interface {
	// Next waits for the next chunk, for the attempt's IdleTimeout at most. The chunk is valid until
	// the next call. The error is io.EOF behind the last chunk; any other is a *Failure that names no
	// pool and backend. Of an answer in one piece there is no chunk.
	Next(want Want) (*openai.Chunk, error)
	// Buffered reports whether Next returns at once.
	Buffered() bool
	// Close ends the exchange. An engine that is still at work is told to stop. Only the first call
	// counts.
	Close()
}

// Want says how much of a chunk must be parsed.
type Want uint8

// The values.
const (
	WantTokens Want = iota // text, ids and logprobs, as far as the call asks for them
	WantTops               // the logprobs of the alternatives, too
)

// Attempt is one call at one backend.
type Attempt struct {
	Call Call

	Backend string       // its id in the pool
	URL     string       // its base URL without a trailing slash
	Engine  dialect.Kind // its kind; "" is not known yet

	ID     string      // that the engine is to know the call by; "" names none
	Header http.Header // to be sent along: the trace, or another User-Agent. It must not be changed

	Credentials *credentials.Credentials // that the pool shows to its engines; nil is none

	FirstByteTimeout time.Duration // the longest wait for the first byte; 0 is as long as ctx lives
	IdleTimeout      time.Duration // the longest wait for the next chunk, or the next bytes

	MaxPrompt int // tokens that its prompts can have; 0 goes by the bytes that are sent
	MaxAnswer int // tokens that its answer can have

	// Pause is set by Upstream: for how long the backend wants no further request, by its limits of rates; 0 tells none.
	Pause time.Duration
	// Used is set by Upstream: the token counts of an answer in one piece, limited to what is possible. A stream reports
	// them in its chunks.
	Used openai.Usage
}

// FinishTracker tracks which choices of an answer have ended. The zero value waits for one choice.
type FinishTracker struct {
	Want         int          // choices of a whole answer; 0 is 1
	begun, ended map[int]bool // by index
}

// Add takes what a chunk says of its choices.
func (f *FinishTracker) Add(c *openai.Chunk) {
	f.mark(&f.begun, c.Begun)
	f.mark(&f.begun, c.Ended)
	f.mark(&f.ended, c.Ended)
}

func (f *FinishTracker) mark(marked *map[int]bool, indexes []int) {
	want := max(f.Want, 1)
	for _, i := range indexes {
		if want == 1 {
			i = 0 // there is no other, whatever the engine calls it
		}
		if *marked == nil {
			*marked = map[int]bool{}
		}
		if i >= 0 && i < want {
			(*marked)[i] = true
		}
	}
}

// All reports whether every choice has ended.
func (f *FinishTracker) All() bool { return len(f.ended) >= max(f.Want, 1) }

// AllBegun reports whether every choice that has begun has ended, and there is one. Where the engine says that the answer
// is done, that is all of it: some engines ignore n.
func (f *FinishTracker) AllBegun() bool { return len(f.ended) > 0 && len(f.ended) == len(f.begun) }
