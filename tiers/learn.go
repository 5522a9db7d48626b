package tiers

import (
	"cmp"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/strategy"
)

// recordOutcome writes what became of a request into the book that the next are weighed by. What
// failed, and what was never to be drafted, says nothing of drafts.
func (c *Cascade) recordOutcome(r *inflight.Request, o strategy.Outcome, err error) {
	c.fundAudits(r, &o)
	c.recordWarmup(r, &o, err)
	reason := cmp.Or(o.Bypass, r.Plan.Reason)
	shut := reason == economy.ReasonNoSaving || reason == economy.ReasonTTFT
	switch o.Verdict.Reason {
	case draft.ReasonLost, strategy.ReasonBlock, accept.ReasonNoVerdict:
		return
	}
	if err != nil || !o.IsJudged() && !shut {
		return
	}
	c.recordCost(r, &o)
	first := o.TargetFirst
	if !r.Body.Stream {
		first = 0 // a continuation's first token; the client of a whole answer waits for its last
	}
	c.costs.Learn(trafficClassOf(r.Body, r.Plan), economy.Outcome{
		Drafted: o.IsJudged(), Served: o.Tier == plan.Draft && o.Verdict.Accept && o.Verdict.Cohort != accept.CohortPressure,
		Prompt: o.Prompt, Output: o.Accepted + o.Target,
		Held: o.Drafted, Salvaged: o.Accepted,
		FirstByte: o.First, TargetFirst: first,
	})
}

// recordWarmup notes what became of a request in the time of its kind's warm-up. The first begins it, whether it was drafted or not.
func (c *Cascade) recordWarmup(r *inflight.Request, o *strategy.Outcome, err error) {
	if r.AuditDecision == nil || !r.Views.IsFirstTime(&r.Config.Risk) {
		return
	}
	made, served := 0, 0
	if o.IsJudged() || r.AuditDecision.Shadow {
		made = 1
	}
	if err == nil && o.ServedByWarmup(r.AuditDecision) {
		served = 1
	}
	c.evidence.Drafted(r.AuditDecision.Own.Key, made, served)
}

// recordCost books what the request would have cost the target alone, and what it did cost, by
// the same prices of tokens.
func (c *Cascade) recordCost(r *inflight.Request, o *strategy.Outcome) {
	p := c.pricesOf(r.Route)
	if !p.Known() {
		return
	}
	prompt, output := float64(o.Prompt), float64(o.Accepted+o.Target)
	alone := prompt*p.TargetPrefill + output*p.TargetDecode
	spent := float64(o.Scored)*p.TargetPrefill + float64(o.Target)*p.TargetDecode
	if o.IsJudged() {
		spent += prompt*p.DraftPrefill + float64(o.Drafted)*p.DraftDecode
	}
	if o.Target > 0 && o.Scored == 0 { // what was scored is in the cache
		spent += (prompt + float64(o.Accepted)) * p.TargetPrefill
	}
	c.metrics.addCost(r.Route, alone, spent)
}

// fundAudits lets audits cost a share of what the request had the target do.
func (c *Cascade) fundAudits(r *inflight.Request, o *strategy.Outcome) {
	if !r.Config.Mode.Audited() {
		return
	}
	t := o.Tally
	t.Prompt = cmp.Or(t.Prompt, r.Body.PromptTokens)
	c.audits.AddBudget(r.Route, &r.Config.Risk, t)
}

// CostStatistics is what was learned of drafts, for metrics and status.
func (c *Cascade) CostStatistics() *economy.Statistics { return c.costs }
