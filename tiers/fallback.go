package tiers

import (
	"context"
	"errors"
	"fmt"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/inflight"
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
	Price          plan.TokenPrice
	// Names are the routes that offer the same servers with the same model as their own. A tenant needs the right to one
	// of them; none: to the route of the fallback only.
	Names []string
}

// AnswerFallback answers a request by a fallback, with one attempt, after its own pools failed. Its receipt goes on with the
// calls that it has. Nothing of the gateway's is sent: no id, trace, salt or priority. The errors are as of
// [Cascade.Answer]. Nothing is learned of the answer.
func (c *Cascade) AnswerFallback(ctx context.Context, r *inflight.Request, fb *Fallback, to inflight.Delivery) error {
	body, err := boundedBody(r.Body)
	if err != nil {
		return err
	}
	rc := r.Receipt
	rc.StartOver(plan.FallbackDecision())
	away := &inflight.Request{
		Arrival: inflight.Arrival{Body: body, Tenant: r.Tenant, Class: r.Class}, Receipt: rc, Config: r.Config.ForFallback(), Services: c.services,
	}
	away.Needs = plan.DemandOf(body, prefix.Head{}) // its prefix is nobody's here to remember
	away.Target = inflight.Pool{Pool: fb.Pool, Tier: plan.Fallback}
	tries := len(rc.Tries)
	err = away.Answer(ctx, inflight.Delivery{Sink: to.Sink, Observer: to.Observer}, nil)
	usd := fb.cost(r.Body, rc, rc.Tries[tries:], err)
	rc.USD += usd
	c.metrics.AddCost(plan.Fallback, usd)
	c.metrics.countFallback(rc, fb.Pool.Name(), usd, err)
	return err
}

// boundedBody returns a request with a limit of tokens: its own, or [plan.FallbackAnswer].
func boundedBody(r *openai.Request) (*openai.Request, error) {
	if r.Limit() > 0 {
		return r, nil
	}
	body := r.Apply(nil, openai.Edit{Name: "max_tokens", Value: fmt.Append(nil, plan.FallbackAnswer)})
	return r.Rescan(body)
}

// CountFallback counts a fallback that was not asked.
func (c *Cascade) CountFallback(route, pool, outcome string) {
	c.metrics.fallbacks.WithLabelValues(route, pool, outcome).Inc()
}

// CountStayed counts a request that no fallback answered.
func (c *Cascade) CountStayed(route, why string) { c.metrics.stayed.WithLabelValues(route, why).Inc() }

// FailureCauseOf returns why the route's own pools gave no answer, by the error of [Cascade.Answer]. shed: it is
// the error of a queue that refuses admission.
func FailureCauseOf(err error, shed bool) plan.FailureCause {
	if _, broken := errors.AsType[*inflight.BrokenError](err); broken || err == nil {
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

// cost returns what an answer costs. A server that may have worked without telling its tokens is paid the bound. Nobody
// has worked behind a connection that had been closed while it was idle.
func (fb *Fallback) cost(r *openai.Request, rc *inflight.Receipt, tries []dispatch.Try, err error) float64 {
	f, failed := errors.AsType[*engine.Failure](err)
	switch {
	case failed && f.StaleConnection:
		return 0
	case err == nil && rc.PromptTokens > 0 && !rc.Estimated:
		return fb.Price.Of(rc.PromptTokens, rc.TargetTokens)
	case err != nil && !mayHaveWorked(tries):
		return 0
	}
	return fb.Price.Bound(r)
}

// mayHaveWorked reports whether a server may have begun to answer.
func mayHaveWorked(tries []dispatch.Try) bool {
	for _, t := range tries {
		switch t.Failed {
		case engine.Refused, engine.Backpressure, engine.Rejected, engine.WrongModel, engine.Unauthorized, engine.ServerError, engine.Exhausted:
		default:
			return true
		}
	}
	return false
}
