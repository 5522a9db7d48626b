package dispatch

import (
	"context"
	"net/http"
	"time"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// Request is a call that some backend of a pool must answer.
type Request struct {
	Call   engine.Call
	Pool   *pool.Pool
	Tier   plan.Tier // the pool's for this route
	Role   Role      // what it is for, for the record
	Ticket Ticket    // for the pool's queue
	Demand pool.Demand

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
	// Cost tells the price of the place that a call had at a tier's backend, in USD.
	Cost(tier plan.Tier, usd float64)
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
func (IgnoreEvents) Cost(plan.Tier, float64) {}

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

// NoQueue admits every request at once.
type NoQueue struct{}

// Enter implements [Queue].
func (NoQueue) Enter(_ context.Context, _ Ticket, try func(pool.Admission) error) (time.Duration, error) {
	return 0, try(pool.Admission{})
}

// Breaker is asked before a backend is called for a tenant; "" is nobody's call.
type Breaker interface {
	Allow(pool, backend, tenant string) (Permit, error)
}

// Permit allows one call to a backend. Report gives its outcome once, for [engine.Classify]: at the first byte, or the
// error before it. A later fault is a sample of its own.
type Permit interface{ Report(err error) }

// NoBreaker permits every call.
type NoBreaker struct{}

// Allow implements [Breaker].
func (NoBreaker) Allow(string, string, string) (Permit, error) { return noReport{}, nil }

type noReport struct{}

func (noReport) Report(error) {}

// Metrics counts calls. All labels have a bounded set of values.
type Metrics interface {
	CountFailure(f *engine.Failure)
	CountRetryBudgetSpent()
	AddCost(tier plan.Tier, usd float64)
}
