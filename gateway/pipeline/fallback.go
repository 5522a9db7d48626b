package pipeline

import (
	"context"
	"errors"
	"slices"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/internal/redis/lookup"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
)

// What became of a request at a fallback, as foregate_fallbacks_total names it.
const (
	outcomeSpent = "spent" // no dollars were left, so it was not asked
)

// FallbackOwner is the owner of the dollars of a route's fallback, among those of the tenants' budgets. It begins with a
// slash, as no tenant's name does, and @ is in no route's name.
func FallbackOwner(route, pool string) string { return "/fallback/" + route + "@" + pool }

// FallbackBudget is the budget of a fallback per hour.
func FallbackBudget(fb *tiers.Fallback) []identity.Budget {
	return []identity.Budget{{NanoUSD: fb.NanoUSDPerHour, Per: identity.Hour}}
}

// leaving is a request whose own pools gave no answer.
type leaving struct {
	*request
	to    call
	own   error // how the own pools failed
	facts plan.FallbackFacts
	stale []bool // by fallback: its connection had been closed while it was idle, so it was tried again
}

// fallBack answers a request by a fallback of its route, after its own pools failed with err. ctx belongs to the client.
// If no fallback answers, the error is err: how the own pools failed is what the client should know.
func (q *request) fallBack(ctx context.Context, to call, err error) error {
	if len(q.Route.Fallbacks) == 0 {
		return err
	}
	flight, receipt := *q.flight, *q.flight.Receipt // an audit still reads the first
	flight.Receipt = &receipt
	q.flight, q.record.Receipt = &flight, &receipt
	rc := &receipt
	l := &leaving{request: q, to: to, own: err, stale: make([]bool, len(q.Route.Fallbacks))}
	l.facts = plan.FallbackFacts{
		Cause:    tiers.FailureCauseOf(err, q.p.o.IsShed(err)),
		External: q.Caller.Access.MayLeave(), Demanded: q.Tier != plan.Auto && q.Tier != "" || q.Demand != plan.DemandDefault,
		Sent: len(to.Sent) > 0 || rc.First > 0, Unfit: !plan.FitsOutside(q.Body),
		Candidates: q.candidates(),
	}
	for {
		l.facts.Gone = ctx.Err() != nil
		i, why := plan.ChooseFallback(l.facts)
		if i < 0 {
			rc.Stayed = why
			q.p.o.Cascade.CountStayed(q.Route.Model, why)
			return err
		}
		if done, failed := l.try(ctx, i); done {
			return failed
		}
	}
}

// candidates returns the route's fallbacks with the rights of the tenant.
func (q *request) candidates() []plan.Candidate {
	all := make([]plan.Candidate, 0, len(q.Route.Fallbacks))
	for _, fb := range q.Route.Fallbacks {
		all = append(all, plan.Candidate{When: fb.When, Allowed: len(fb.Names) == 0 || slices.ContainsFunc(fb.Names, q.Caller.Access.Allows)})
	}
	return all
}

// try asks a fallback, if there are dollars for it. done: the request has its answer, or a part of it with this error.
func (l *leaving) try(ctx context.Context, i int) (done bool, err error) {
	fb, state := &l.Route.Fallbacks[i], &l.facts.Candidates[i].State
	dollars, ok := l.reserve(ctx, fb)
	if !ok {
		*state = plan.FallbackSpent
		l.p.o.Cascade.CountFallback(l.Route.Model, fb.Pool.Name(), outcomeSpent)
		return false, nil
	}
	spent := fb.Price.Bound(l.Body) // unless the attempt says less
	defer func() { dollars.settle(spent) }()
	if l.to.leave != nil {
		if l.to.Sink = l.to.leave(); l.to.Sink == nil {
			spent = 0
			return true, l.own
		}
		l.to.leave = nil // it has left
	}
	to, rc := inflight.Delivery{Sink: l.to.Sink}, l.flight.Receipt // nobody shares the answer, and it is not stored
	if l.Observe != nil {
		to.Observer = l.Observe()
	}
	before := rc.USD
	err = l.p.o.Cascade.AnswerFallback(ctx, l.flight, fb, to)
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
func (l *leaving) reserve(ctx context.Context, fb *tiers.Fallback) (d fallbackDollars, ok bool) {
	ctx = lookup.WithWaited(ctx, new(lookup.Waited)) // the cascade has taken its time
	most := fb.Price.Bound(l.Body)
	var err error
	if access := l.Caller.Access; access.HasBudgets() {
		if d.tenant, err = l.p.o.Ledger.Reserve(ctx, ledger.Request{Tenant: l.Caller.Tenant, Budgets: access.Budgets, USD: most, Fallback: true}); err != nil {
			return d, false
		}
	}
	owner := FallbackOwner(l.Route.Model, fb.Pool.Name())
	if d.pool, err = l.p.o.Ledger.Reserve(ctx, ledger.Request{Tenant: owner, Budgets: FallbackBudget(fb), USD: most, Fallback: true}); err != nil {
		d.tenant.Settle(0, 0)
		return d, false
	}
	return d, true
}
