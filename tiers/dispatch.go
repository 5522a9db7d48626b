package tiers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/scoring"
)

// gate is asked before a backend is called, and told what came of it. The outcome is
// reported at the first byte; a fault after that is a sample of its own.
type gate interface {
	Allow(pool, backend string) (done func(error), err error)
}

// openGate lets everything through.
type openGate struct{}

func (openGate) Allow(string, string) (func(error), error) { return func(error) {}, nil }

// Line decides whose turn it is at a pool that is short of memory.
type Line interface {
	// Enter runs try, at once or when the request's turn comes, with how full a backend
	// may be that it goes to. It returns nil or try's error; or why the request was
	// turned away; or the context's cause. The error is a *pool.FullError where t.Now
	// is set and there is no room. waited is how long it took.
	Enter(ctx context.Context, t Turn, try func(pool.Limit) error) (waited time.Duration, err error)
}

// Turn is what a line needs to know of a request.
type Turn struct {
	Route, Pool string
	Tenant      string
	Class       int8          // as Ask.Class
	Tokens      int           // that it asks for, about
	Waited      time.Duration // before, for its other tries
	Now         bool          // it does not wait
	Must        bool          // its answer has begun: it is not turned away
}

// openLine lets everybody in.
type openLine struct{}

func (openLine) Enter(_ context.Context, _ Turn, try func(pool.Limit) error) (time.Duration, error) {
	return 0, try(pool.Limit{})
}

// leastRetries is the number of retries under way that the budget never goes
// below: what one engine of a small pool takes with it when it dies is tried
// elsewhere.
const leastRetries = 10

// dispatch sends a call to a backend of its pool, and to others when that fails
// before the first byte, within the retry budget. The error is a
// *pool.NoBackendError, a *pool.FullError or the line's, an *ExhaustedError, or a
// *Failure that no other backend would mend.
func (c *Cascade) dispatch(ctx context.Context, k call, cfg plan.Config, rc *receipt.Receipt) (*exchange, error) {
	c.active.Add(1)
	var t tries
	defer func() {
		c.active.Add(-1)
		c.retrying.Add(-t.retries)
	}()
	for {
		x := &exchange{cascade: c, receipt: rc}
		waited, err := x.acquire(ctx, &k)
		rc.Waited += waited
		k.turn.Waited += waited
		if c.again(&t, &k, err, cfg) {
			continue
		}
		if err != nil {
			return nil, t.giveUp(k.pool.Name(), err)
		}
		x.call = k
		x.try(waited)
		failure := x.open(ctx)
		backend := x.lease.Backend()
		if failure == nil {
			return x, nil
		}
		c.metrics.failed(failure)
		t.add(failure)
		k.demand.Exclude = append(k.demand.Exclude, backend)
		if !failure.Retryable() {
			return nil, failure
		}
		if t.count > cfg.RetryAttempts {
			return nil, t.giveUp(k.pool.Name(), nil)
		}
		if failure.Lost() {
			continue // who is dead is not buried deeper, and all that it had come at once
		}
		if !c.retry(cfg.RetryBudget) {
			return nil, t.giveUp(k.pool.Name(), nil)
		}
		t.retries++
	}
}

// again reports whether no other backend is left than one that may be asked once more: its
// call was lost, and it may be well. That takes a retry from the budget. A demand that is Spare
// would not get it where it is suspect or broken.
func (c *Cascade) again(t *tries, k *call, err error, cfg plan.Config) bool {
	none, ok := errors.AsType[*pool.NoBackendError](err)
	if t.maybe == "" || !ok || k.demand.Spare && none.Excluded == 0 || !c.retry(cfg.RetryBudget) {
		return false
	}
	t.retries++
	k.demand.Exclude = slices.DeleteFunc(k.demand.Exclude, func(id string) bool { return id == t.maybe })
	k.stays, t.maybe = true, ""
	return true
}

// acquire picks a backend when it is the request's turn.
func (x *exchange) acquire(ctx context.Context, k *call) (waited time.Duration, err error) {
	tried := len(k.demand.Exclude)
	k.demand.Spare = k.turn.Now && k.tier == plan.Draft // the target is behind it
	return x.cascade.line.Enter(ctx, k.turn, func(limit pool.Limit) error {
		k.demand.Limit = limit
		defer func() { k.demand.Exclude = k.demand.Exclude[:tried] }() // whom a gate keeps out now may be open in a moment
		return x.pick(k)
	})
}

// pick picks a backend that its gate lets through.
func (x *exchange) pick(k *call) error {
	for {
		if err := k.pool.PickInto(&x.lease, &k.demand); err != nil {
			return err
		}
		err := x.permit(k)
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*scoring.RefusedError](err); ok && !refused.Backend {
			return err
		}
		k.demand.Exclude = append(k.demand.Exclude, x.lease.Backend())
	}
}

// permit asks for a permit at the backend that was picked, and gives the place there back where there is none.
func (x *exchange) permit(k *call) error {
	permitted := false
	defer func() {
		if !permitted { // or it panicked
			x.lease.Done(0)
		}
	}()
	done, err := x.allow(k)
	x.gate, permitted = done, err == nil
	return err
}

// allow asks the backend's breaker; for a score, that of scoring.
func (x *exchange) allow(k *call) (done func(error), err error) {
	c := x.cascade
	if k.scoring == nil {
		return c.gate.Allow(k.pool.Name(), x.lease.Backend())
	}
	leave, err := c.scores.Enter(*k.scoring, k.pool.Name(), x.lease.Backend(), k.tokens, c.now())
	if err != nil {
		return nil, err
	}
	return func(err error) { leave(scoreOutcome(err), c.now()) }, nil
}

// scoreOutcome tells what a score's end says of scoring: an engine that is gone in the midst
// of one is taken to have died of it.
func scoreOutcome(err error) scoring.Outcome {
	f, _ := errors.AsType[*engine.Failure](err)
	switch {
	case err == nil:
		return scoring.Success
	case f == nil, f.Stale, f.Kind == engine.Silent, f.Kind == engine.Gone, f.Kind == engine.Expired, f.Kind == engine.Exhausted, f.Kind == engine.Refused, f.Kind == engine.Backpressure, f.Kind == engine.Rejected:
		return scoring.Neutral
	case f.Kind == engine.Reset, f.Kind == engine.Cut, f.Kind == engine.ServerError && f.Fault != nil && strings.HasPrefix(f.Fault.Message, engineDied):
		return scoring.Deadly
	}
	return scoring.Fault
}

// engineDied begins what vLLM's front end says of an engine that has just died, before it ends
// itself (vllm-api.md §1.3).
const engineDied = "EngineCore encountered an issue"

// retry takes one retry from the budget: a share of the calls under way, so
// that a failing pool is not buried under its own retries (Envoy's and
// Finagle's rule: 20 %; the floor is Finagle's). Calls whose backend is gone are tried elsewhere
// without it, as often as any.
func (c *Cascade) retry(budget float64) bool {
	allowed := max(int64(float64(c.active.Load())*budget), leastRetries)
	if c.retrying.Add(1) > allowed {
		c.retrying.Add(-1)
		c.metrics.budgetSpent.Inc()
		return false
	}
	return true
}

// tries remembers what came of the calls of one dispatch.
type tries struct {
	count, busy int
	retries     int64 // taken from the budget
	hint        time.Duration
	last        *engine.Failure
	maybe       string // the backend of a call that was lost and says little of it; "" is none
}

func (t *tries) add(f *engine.Failure) {
	t.count++
	t.last = f
	if f.Maybe() {
		t.maybe = f.Backend
	}
	if f.Kind == engine.Backpressure {
		t.busy++
		t.hint = max(t.hint, f.RetryAfter)
	}
}

// giveUp words the end: no backend at all, or none that answered.
func (t *tries) giveUp(name string, err error) error {
	if t.last == nil {
		return err
	}
	var none *pool.NoBackendError
	if err != nil && !errors.As(err, &none) {
		return err
	}
	return &ExhaustedError{Pool: name, Tries: t.count, Last: t.last, RetryAfter: t.hint, AllBusy: t.busy == t.count}
}
