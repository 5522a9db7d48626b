package dispatch

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/world"
)

// Request is a call that some backend of a pool must answer.
type Request struct {
	Call   engine.Call
	Pool   *pool.Pool
	Tier   plan.Tier // the pool's for this route
	Role   Role      // what it is for, for the record
	Ticket Ticket    // for the pool's queue
	Demand pool.Demand

	// MaxDelay is the longest time that a prompt may be expected to wait at a backend: else there is no capacity; 0: no limit.
	MaxDelay time.Duration
	// Instead returns another call, to another pool, that is made as soon as this one's pool has no capacity and that one has
	// room; nil: there is none.
	Instead func() Request

	Deadline         time.Time     // the call ends then, its wait in the queue included; zero leaves it to the context
	FirstByteTimeout time.Duration // the longest wait for the first byte; 0 leaves it to the request's deadline
	IdleTimeout      time.Duration // the longest wait for the next chunk

	Retry   Retry                           // of [Dispatcher.Open]
	Scoring *Score                          // bounds of a question of what an engine thinks of a draft; nil for other calls
	Before  func(ctx context.Context) error // called by [Dispatcher.Do] when there is a place and before it asks; its error ends it. nil is not at all

	MaxPrompt int // tokens that its prompts can have; 0 goes by the bytes that are sent

	Identity
	Events Events // hears what becomes of it
}

// Identity identifies a call to the engine.
type Identity struct {
	ID     string      // of the request: what the ids of its calls begin with; "" names none
	Header http.Header // to be sent along: its trace
	Spans  bool        // each call is a span of its own in that trace
}

// Retry bounds the retries of a call before its first byte.
type Retry struct {
	MaxRetries int     // further backends after the first
	Budget     float64 // share of the calls in flight that may be retries
}

// Events receives what happens to a request's calls, on the request's own goroutine.
type Events interface {
	// Waited tells how long a call has waited for capacity.
	Waited(d time.Duration)
	// Tried tells of a call that begins at some time, and returns its entry in the record: 0 where
	// that has no place for it.
	Tried(t Try, at time.Time) (entry int)
	// Settled tells what came of it.
	Settled(entry int, t Try)
	// Cost tells the cost of what a call's backend did, once or in parts.
	Cost(Cost)
}

// IgnoreEvents implements [Events] and does nothing: of calls that belong to no record.
type IgnoreEvents struct{}

// Waited implements [Events].
func (IgnoreEvents) Waited(time.Duration) {}

// Tried implements [Events].
func (IgnoreEvents) Tried(Try, time.Time) int { return 0 }

// Settled implements [Events].
func (IgnoreEvents) Settled(int, Try) {}

// Cost implements [Events].
func (IgnoreEvents) Cost(Cost) {}

// Cost is the cost of a call's work.
type Cost struct {
	Tier    plan.Tier
	USD     float64 // of the work; 0 where the price is unknown
	Unknown bool    // work was done whose price is unknown
	Cached  int     // prompt tokens that were found in the prefix cache
}

// Ticket describes a request to the admission queue.
type Ticket struct {
	Route, Pool string
	Tenant      string
	Class       int8          // of its priority: higher goes first
	Tokens      int           // that it asks for, about
	Waited      time.Duration // before, for its other tries
	NoWait      bool          // it does not wait for capacity
	MidStream   bool          // its answer has begun: it is not turned away
}

// Queue admits requests to a pool that is short of memory.
type Queue interface {
	// Enter runs try, at once or when the request's turn comes, with how full a backend may be that
	// it goes to. It returns nil or try's error; or why the request was turned away; or the context's
	// cause. The error is a *pool.FullError where t.NoWait is set and there is no capacity. waited is
	// how long it took.
	Enter(ctx context.Context, t Ticket, try func(pool.Admission) error) (waited time.Duration, err error)
}

// Breaker is asked before a backend is called for a tenant; "" is nobody's call.
type Breaker interface {
	Allow(pool, backend, tenant string) (Permit, error)
}

// Permit allows one call to a backend. Report gives its outcome once, for [engine.Classify]: at the first byte, or the
// error before it. A later fault is a sample of its own.
type Permit interface{ Report(err error) }

// Try is one call to one backend. Its times are on the gateway's clock.
type Try struct {
	Pool    string             `json:"pool"`
	Backend string             `json:"backend"`
	URL     string             `json:"-"`                   // of the backend, as it is configured or found
	Failed  engine.FailureKind `json:"failed,omitzero"`     // "" when it answered
	Score   bool               `json:"score,omitzero"`      // it was asked what it thinks of a draft
	Role    Role               `json:"role"`                // what it was asked for
	Broke   engine.FailureKind `json:"broken_off,omitzero"` // why it broke off after its first byte; "" when it did not

	Status int `json:"-"` // of its response; 0 is none
	Tokens int `json:"-"` // that it made for the answer, as far as they came

	Waited time.Duration `json:"queued_ms,omitzero"` // for capacity, before it
	At     time.Duration `json:"at_ms"`              // when it was begun, after Receipt.Began
	First  time.Duration `json:"first_token_ms"`     // from then until its first event, or the whole of what is not streamed; 0 is none
	Took   time.Duration `json:"ms"`                 // from then until it was over; 0 while it is not

	Call string  `json:"call,omitzero"` // its name, see [CallName]; "" where it had none
	Span [8]byte `json:"-"`             // the id that its backend was told as its parent; zero where requests are not traced
}

// Role is the purpose of a call.
type Role string

// The roles. Those of answers are named as the tiers of their pools.
const (
	RoleDraft    Role = "draft"    // a draft, or an answer of the draft tier
	RoleTarget   Role = "target"   // an answer of the target, or the rest of one
	RoleFallback Role = "fallback" // an answer of a hosted pool
	RoleScore    Role = "score"    // what it thinks of a draft
	RoleTokenize Role = "tokenize" // text into ids, or back
)

// Options wires a Dispatcher. All but the last are needed.
type Options struct {
	World      world.World
	Upstream   engine.Upstream
	Queue      Queue
	Breaker    Breaker
	Scores     *ScoreLimiter
	Window     func(pool string) int // a pool's context length in tokens; 0 while it is unknown
	Registerer prometheus.Registerer // nil registers nothing
}

// services is what all exchanges of a Dispatcher use.
type services struct {
	Options
	metrics *metrics
	calls   atomic.Uint64 // that were ever made: their numbers
}

// CallName is what the id that a backend is told of a call has behind the request's own id and a
// hyphen. No two calls of a replica have the same.
func CallName(call uint64) string { return strconv.FormatUint(call, 36) }

// The headers of the W3C's trace context. A traceparent of version 00 is
// 00-<trace, 32 hex>-<parent, 16 hex>-<flags, 2 hex>.
const (
	traceparent = "Traceparent"
	tracestate  = "Tracestate"

	traceparentSize = 55
	parentAt        = 36
)

// span makes a call a span of its own in the request's trace: its backend is told an id, which the
// record keeps, in place of the request's. A call that the record has no place for stays the request's
// own.
func span(h http.Header, t *Try) http.Header {
	parents := h[traceparent]
	if len(parents) != 1 || len(parents[0]) != traceparentSize {
		return h
	}
	binary.BigEndian.PutUint64(t.Span[:], max(rand.Uint64(), 1)) // zero is no id
	own := []byte(parents[0])
	hex.Encode(own[parentAt:parentAt+16], t.Span[:])
	h = maps.Clone(h)
	h[traceparent] = []string{string(own)}
	return h
}

// Untraced is what is told upstream of work that no trace shows, such as audits: it would hang in
// the request's trace long after its end, below spans that nobody has sent.
func (i Identity) Untraced() Identity {
	if !i.Spans {
		return i
	}
	i.Header = maps.Clone(i.Header)
	delete(i.Header, traceparent)
	delete(i.Header, tracestate)
	i.Spans = false
	return i
}
