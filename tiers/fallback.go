package tiers

import (
	"context"
	"fmt"

	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/strategy"
)

// AnswerFallback answers a request by a fallback, with one attempt. rc is the receipt of the request so far, whose
// calls it keeps. Nothing of the gateway's is sent: no id, trace, salt or priority. The errors are as of
// [Cascade.Answer]. Nothing is learned of the answer.
func (c *Cascade) AnswerFallback(ctx context.Context, a Request, fb *Fallback, rc *receipt.Receipt, sink Sink) error {
	body, err := boundedBody(a.Body)
	if err != nil {
		return err
	}
	r := &inflight.Request{
		Body: body, Config: a.Config.ForFallback(), Plan: plan.FallbackPlan(), Route: a.Route.Model, Tenant: a.Tenant, Class: a.Class, Services: c.services,
	}
	r.Demand = plan.DemandOf(body, prefix.Head{}) // its prefix is nobody's here to remember
	r.Target = inflight.Pool{Pool: fb.Pool, Tier: plan.Fallback}
	record := *receipt.NewRecorder(rc, c.now)
	record.RecordPlan(r.Plan, nil)
	record.ClearVerdict() // no draft is part of this answer
	record.RecordTally(receipt.Tally{})
	tries := len(rc.Tries)
	answer := strategy.New(strategy.Options{Request: r, Record: record, Sink: &headed{sink, rc}, Observer: a.Observer})
	err = answer.Run(ctx)
	usd := fb.cost(a.Body, rc, rc.Tries[tries:], err)
	receipt.NewRecorder(rc, c.now).Cost(plan.Fallback, usd)
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

// The outcomes of foregate_fallbacks_total that the cascade sees.
const (
	fallbackAnswered = "answered"
	fallbackFailed   = "failed" // before its first byte
	fallbackBroken   = "broken" // after it
)

// countFallback counts an attempt at a fallback.
func (m *metrics) countFallback(rc *receipt.Receipt, pool string, usd float64, err error) {
	outcome := fallbackAnswered
	switch {
	case err != nil && rc.First == 0:
		outcome = fallbackFailed
	case err != nil:
		outcome = fallbackBroken
	}
	m.fallbacks.WithLabelValues(rc.Route, pool, outcome).Inc()
	m.fallbackUSD.WithLabelValues(rc.Route, pool).Add(usd)
	m.tokens.WithLabelValues(string(plan.Fallback), "prompt").Add(float64(rc.PromptTokens))
	m.tokens.WithLabelValues(string(plan.Fallback), "delivered").Add(float64(rc.TargetTokens))
}

// CountFallback counts a fallback that was not asked.
func (c *Cascade) CountFallback(route, pool, outcome string) {
	c.metrics.fallbacks.WithLabelValues(route, pool, outcome).Inc()
}

// CountStayed counts a request that no fallback answered.
func (c *Cascade) CountStayed(route, why string) { c.metrics.stayed.WithLabelValues(route, why).Inc() }
