// Package dispatch brings a call to a backend: it waits for its turn in the pool's queue, picks a
// backend, asks that one's breaker, makes the attempt, and tries others within the retry budget when
// it fails before its first byte. Start at [Dispatcher.Open] and [Dispatcher.Do].
//
// It knows neither HTTP nor the clock: attempts are made by an [engine.Upstream] and time is a
// [world.World]'s, so that the lab runs the same code.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/pool"
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
