package tiers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/prefix"
)

// Fallback is a hosted last resort of a route.
type Fallback struct {
	Pool           *pool.Pool
	When           []plan.FailureCause
	NanoUSDPerHour int64 // 1e-9 USD that all replicas together may spend on it per hour
	// Names are the routes that offer the same servers with the same model as their own. A tenant needs the right to one
	// of them; none: to the route of the fallback only.
	Names []string
}

// answerFallback answers a request by a fallback, with one attempt, after its own pools failed. Its receipt goes on with the
// calls that it has. The errors are as of [Cascade.answer]. Nothing is learned of the answer.
func (c *Cascade) answerFallback(ctx context.Context, r *Request, fb *Fallback, to Delivery) error {
	body, err := boundedBody(r.Body)
	if err != nil {
		return err
	}
	rc := r.Receipt
	rc.StartOver(plan.FallbackDecision())
	nobody := &Metadata{Caller: identity.Caller{Tenant: r.Caller.Tenant, Priority: r.Caller.Priority}}
	away := &Request{
		Arrival: Arrival{Metadata: nobody, Body: body}, Receipt: rc, Lookup: r.Lookup, Config: r.Config.ForFallback(), Services: &c.Services,
	}
	away.Needs = plan.DemandOf(body, prefix.Head{}) // its prefix is nobody's here to remember
	away.Target = Pool{Pool: fb.Pool, Tier: plan.Fallback}
	before := rc.USD
	err = away.answer(ctx, Delivery{Sink: to.Sink, Observer: to.Observer}, nil)
	c.metrics.countFallback(rc, fb.Pool.Name(), rc.USD-before, err)
	return err
}

// boundedBody returns a request with a limit of tokens: its own, or [pool.AssumedAnswer].
func boundedBody(r *openai.Request) (*openai.Request, error) {
	if r.Limit() > 0 {
		return r, nil
	}
	body := r.Apply(nil, openai.Edit{Name: "max_tokens", Value: fmt.Append(nil, pool.AssumedAnswer)})
	return r.Rescan(body)
}

// FailureCauseOf returns why the route's own pools gave no answer, by the error of [Cascade.answer]. shed: it is
// the error of a queue that refuses admission.
func FailureCauseOf(err error, shed bool) plan.FailureCause {
	if _, broken := errors.AsType[*BrokenError](err); broken || err == nil {
		return plan.CauseNone
	}
	if shed {
		return plan.CauseShed
	}
	if e, ok := errors.AsType[*dispatch.ExhaustedError](err); ok {
		switch {
		case e.AllBusy:
			return plan.CauseShed // they refused admission themselves
		case e.Last.Kind == engine.Exhausted:
			return plan.CauseNone // this replica has no connections left
		}
		return plan.CauseUnavailable
	}
	if e, ok := errors.AsType[*pool.NoBackendError](err); ok {
		if e.TooLong {
			return plan.CauseNone
		}
		return plan.CauseUnavailable
	}
	return plan.CauseNone
}

// FallbackOwner is the owner of the dollars of a route's fallback, among those of the tenants' budgets. It begins with a
// slash, as no tenant's name does, and @ is in no route's name.
func FallbackOwner(route, pool string) string { return "/fallback/" + route + "@" + pool }

// FallbackBudget is the budget of a fallback per hour.
func FallbackBudget(fb *Fallback) []identity.Budget {
	return []identity.Budget{{NanoUSD: fb.NanoUSDPerHour, Per: identity.Hour}}
}

// bound returns the most that a request to the fallback is expected to cost, in USD.
func (fb *Fallback) bound(r *openai.Request) float64 {
	needs := plan.DemandOf(r, prefix.Head{})
	return economy.CostOfWork(fb.Pool.TokenPrice(), needs.Bound())
}

// leaving is a request whose own pools gave no answer.
type leaving struct {
	*request
	to        call
	fallbacks []Fallback
	facts     plan.FallbackFacts
	stale     []bool // by fallback: its connection had been closed while it was idle, so it was tried again
}

// fallBack answers a request by a fallback of its route, after its own pools failed with err. ctx belongs to the client.
// If no fallback answers, the error is err: how the own pools failed is what the client should know.
func (rq *request) fallBack(ctx context.Context, to call, err error) error {
	fallbacks := rq.Arrival.Route.Fallbacks
	if len(fallbacks) == 0 {
		return err
	}
	anew, receipt := *rq.Request, *rq.Receipt // an audit still reads the first
	anew.Receipt = &receipt
	rq.Request, rq.record.Receipt = &anew, &receipt
	rc := &receipt
	l := &leaving{request: rq, to: to, fallbacks: fallbacks, stale: make([]bool, len(fallbacks))}
	l.facts = plan.FallbackFacts{
		Cause:    FailureCauseOf(err, rq.p.o.IsShed(err)),
		External: rq.Caller.Access.AllowExternal, Demanded: rq.Demand.IsAny(),
		Sent: rc.First > 0, Unfit: !plan.FitsOutside(rq.Body),
		Candidates: rq.candidates(),
	}
	for {
		l.facts.Gone = ctx.Err() != nil
		i, why := plan.ChooseFallback(l.facts)
		if i < 0 {
			rc.Stayed = why
			rq.metrics.stayed.WithLabelValues(rq.Body.Model, why).Inc()
			return err
		}
		if done, failed := l.try(ctx, i); done {
			return failed
		}
	}
}

// candidates returns the route's fallbacks with the rights of the tenant.
func (rq *request) candidates() []plan.Candidate {
	all := make([]plan.Candidate, 0, len(rq.Arrival.Route.Fallbacks))
	for _, fb := range rq.Arrival.Route.Fallbacks {
		all = append(all, plan.Candidate{When: fb.When, Allowed: len(fb.Names) == 0 || slices.ContainsFunc(fb.Names, rq.Caller.Access.Allows)})
	}
	return all
}

// try asks a fallback, if there are dollars for it. done: the request has its answer, or a part of it with this error.
func (l *leaving) try(ctx context.Context, i int) (done bool, err error) {
	fb, state := &l.fallbacks[i], &l.facts.Candidates[i].State
	dollars, ok := l.reserve(ctx, fb)
	if !ok {
		*state = plan.FallbackSpent
		l.metrics.fallbacks.WithLabelValues(l.Body.Model, fb.Pool.Name(), "spent").Inc()
		return false, nil
	}
	spent := fb.bound(l.Body) // unless the attempt says less
	defer func() { dollars.settle(spent) }()
	l.to.alone()
	to, rc := Delivery{Sink: l.client}, l.Receipt // nobody shares the answer, and it is not stored
	if l.Observe != nil {
		to.Observer = l.Observe()
	}
	before := rc.USD
	err = l.p.answerFallback(ctx, l.Request, fb, to)
	spent = rc.USD - before
	if err == nil || rc.First > 0 {
		return true, err
	}
	f, failed := errors.AsType[*engine.Failure](err)
	if failed && f.StaleConnection && !l.stale[i] {
		l.stale[i] = true // nobody heard of it
		return false, nil
	}
	*state = plan.FallbackFailed
	return false, nil
}

// fallbackDollars are reserved for one attempt at a fallback: of the fallback's dollars per hour, and of the tenant's own
// budgets. The tenant is charged with the rest of its request, so its reservation only holds the place.
type fallbackDollars struct{ pool, tenant *ledger.Reservation }

func (d fallbackDollars) settle(usd float64) {
	d.pool.Settle(0, usd)
	d.tenant.Settle(0, 0)
}

// reserve takes the most that an answer may cost.
func (l *leaving) reserve(ctx context.Context, fb *Fallback) (d fallbackDollars, ok bool) {
	ctx = calls.WithWaited(ctx, new(calls.Waited)) // the cascade has taken its time
	most := fb.bound(l.Body)
	var err error
	if budgets := l.Caller.Access.Budgets; len(budgets) > 0 {
		if d.tenant, err = l.p.o.Ledger.Reserve(ctx, ledger.Request{Tenant: l.Caller.Tenant, Budgets: budgets, USD: most, Fallback: true}); err != nil {
			return d, false
		}
	}
	owner := FallbackOwner(l.Body.Model, fb.Pool.Name())
	if d.pool, err = l.p.o.Ledger.Reserve(ctx, ledger.Request{Tenant: owner, Budgets: FallbackBudget(fb), USD: most, Fallback: true}); err != nil {
		d.tenant.Settle(0, 0)
		return d, false
	}
	return d, true
}
