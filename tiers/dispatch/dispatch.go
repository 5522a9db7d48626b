// Package dispatch brings a call to a backend: it waits for its turn in the pool's queue, picks a
// backend, asks that one's breaker, makes the attempt, and tries others within the retry budget when
// it fails before its first byte. Start at [Dispatcher.Open] and [Dispatcher.Do].
//
// It knows neither HTTP nor the clock: attempts are made by an [engine.Upstream] and time is a
// [world.World]'s, so that the lab runs the same code.
package dispatch

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/world"
)

// minRetries is the number of retries under way that the budget never goes below: what one engine of a
// small pool takes with it when it dies is tried elsewhere.
const minRetries = 10

// Dispatcher sends calls to backends. It is safe for concurrent use.
type Dispatcher struct {
	services
	active, retrying atomic.Int64
}

// New returns a Dispatcher.
func New(o Options) *Dispatcher {
	return &Dispatcher{services: services{Options: o, metrics: newMetrics(o.Registerer)}}
}

// Open sends a call to a backend of its pool, and to others when that fails before its first byte.
// The error is the queue's; a *pool.NoBackendError or other of the pool's; an *[ExhaustedError]; or a
// *engine.Failure that no other backend would mend.
func (d *Dispatcher) Open(ctx context.Context, o Request) (*Exchange, error) {
	d.active.Add(1)
	var t tries
	defer func() {
		d.active.Add(-1)
		d.retrying.Add(-t.retries)
	}()
	o.Demand.Exclude = slices.Clone(o.Demand.Exclude)
	for x := d.exchange(o); ; x = d.exchange(x.request) {
		o := &x.request // what a try changes of it, the next one goes on with
		waited, err := x.acquire(ctx, o)
		o.Events.Waited(waited)
		o.Ticket.Waited += waited
		if d.shouldRetry(&t, o, x, err) {
			continue
		}
		if err != nil {
			return nil, t.exhausted(o.Pool.Name(), err)
		}
		x.keepsBackend = t.stays
		failure := x.open(waited)
		if failure == nil {
			return x, nil
		}
		d.metrics.countFailure(failure)
		t.add(failure)
		if !o.Pool.External() || failure.Kind != engine.Backpressure { // that one is paused, and may be waited for
			o.Demand.Exclude = append(o.Demand.Exclude, failure.Backend)
		}
		if !failure.Retryable() {
			return nil, failure
		}
		if failure.Kind == engine.WrongModel && x.form != formRaw {
			continue // it has done no work, and says it of every request
		}
		if t.count > o.Retry.MaxRetries {
			return nil, t.exhausted(o.Pool.Name(), nil)
		}
		if failure.IsBackendLost() {
			continue // who is dead is not buried deeper, and all that it had come at once
		}
		if !d.takeRetry(o.Retry.Budget) {
			return nil, t.exhausted(o.Pool.Name(), nil)
		}
		t.retries++
	}
}

// exchange returns an exchange that has not begun.
func (d *Dispatcher) exchange(o Request) *Exchange {
	return &Exchange{services: &d.services, request: o}
}

// Do sends a call whose answer comes in one piece to one backend, once: whoever waits for the answer
// has others to go to. It names the backend that was asked, "" where none was. The error is as of
// Open, but never an *ExhaustedError, or that of o.Before.
func (d *Dispatcher) Do(ctx context.Context, o Request) (backend string, err error) {
	x := d.exchange(o)
	if _, err := x.acquire(ctx, &x.request); err != nil {
		return "", err
	}
	defer x.Drop()
	backend = x.lease.Backend()
	if o.Before != nil {
		if err := o.Before(x.ctx); err != nil {
			return "", err
		}
	}
	if failure := x.open(0); failure != nil {
		d.metrics.countFailure(failure)
		return backend, failure
	}
	x.Close(nil, x.attempt.Used.Completion)
	return backend, nil
}

// shouldRetry reports whether no other backend is left than one that may be asked once more: its
// call was lost, and it may be well. That takes a retry from the budget. A demand that is Optional
// would not get it where it is suspect or broken.
func (d *Dispatcher) shouldRetry(t *tries, o *Request, x *Exchange, err error) bool {
	none, ok := errors.AsType[*pool.NoBackendError](err)
	if t.canRetrySame == "" || !ok || x.demand.Optional && none.Excluded == 0 || !d.takeRetry(o.Retry.Budget) {
		return false
	}
	t.retries++
	o.Demand.Exclude = slices.DeleteFunc(o.Demand.Exclude, func(id string) bool { return id == t.canRetrySame })
	t.stays, t.canRetrySame = true, ""
	return true
}

// takeRetry takes one retry from the budget: a share of the calls under way, so
// that a failing pool is not buried under its own retries (Envoy's and
// Finagle's rule: 20 %; the floor is Finagle's). Calls whose backend is gone are tried elsewhere
// without it, as often as any.
func (d *Dispatcher) takeRetry(budget float64) bool {
	allowed := max(int64(float64(d.active.Load())*budget), minRetries)
	if d.retrying.Add(1) > allowed {
		d.retrying.Add(-1)
		d.metrics.budgetSpent.Inc()
		return false
	}
	return true
}

// tries records the attempts of one call.
type tries struct {
	count, busy  int
	retries      int64 // taken from the budget
	hint         time.Duration
	last         *engine.Failure
	canRetrySame string // the backend of a call that was lost and says little of it; "" is none
	stays        bool   // the last one left is asked once more: it is not given up when it seems to hang
}

func (t *tries) add(f *engine.Failure) {
	t.count++
	t.last = f
	if f.IsRetryableHere() {
		t.canRetrySame = f.Backend
	}
	if f.Kind == engine.Backpressure {
		t.busy++
		t.hint = max(t.hint, f.RetryAfter)
	}
}

// exhausted returns the final error: no backend at all, or none that answered.
func (t *tries) exhausted(name string, err error) error {
	if t.last == nil {
		return err
	}
	var none *pool.NoBackendError
	if err != nil && !errors.As(err, &none) {
		return err
	}
	return &ExhaustedError{Pool: name, Tries: t.count, Last: t.last, RetryAfter: t.hint, AllBusy: t.busy == t.count}
}

// ExhaustedError says that every tried backend failed.
type ExhaustedError struct {
	Pool  string
	Tries int
	Last  *engine.Failure

	AllBusy    bool          // every try found a busy backend
	RetryAfter time.Duration // the longest wait that one of them asked for
}

// Error carries the numbers and the last cause.
func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("pool %s: all %d tries failed, last: %v", e.Pool, e.Tries, e.Last)
}

// Unwrap returns the last failure.
func (e *ExhaustedError) Unwrap() error { return e.Last }

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

// metrics count calls. All labels have a bounded set of values.
type metrics struct {
	failures    *prometheus.CounterVec
	budgetSpent prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	with := promauto.With(reg)
	return &metrics{
		failures: with.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_upstream_failures_total", Help: "Calls to backends that failed, by kind.",
		}, []string{"pool", "kind"}),
		budgetSpent: with.NewCounter(prometheus.CounterOpts{
			Name: "foregate_retry_budget_exhausted_total", Help: "Retries that were not made because the budget was spent.",
		}),
	}
}

// countFailure counts a call that failed.
func (m *metrics) countFailure(f *engine.Failure) {
	m.failures.WithLabelValues(f.Pool, string(f.Kind)).Inc()
}
