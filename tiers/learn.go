package tiers

import (
	"cmp"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/strategy"
)

// recordOutcome adds a request's outcome to the cost statistics. Failed requests, and those that never had a draft, are
// ignored.
func (c *Cascade) recordOutcome(r *inflight.Request, o strategy.Outcome, record *receipt.Recorder, err error) {
	c.fundAudits(r, &o)
	c.recordWarmup(r, &o, err)
	reason := cmp.Or(o.Bypass, r.Plan.Reason)
	switch o.Verdict.Reason {
	case accept.ReasonLost, accept.ReasonNoVerdict:
		return
	}
	if err != nil || !o.IsJudged() && reason != economy.ReasonNoSaving {
		return
	}
	c.recordCost(r, &o, record)
	c.costs.Learn(trafficClassOf(r), economy.Outcome{
		Drafted: o.IsJudged(), Served: o.Tier == plan.Draft && o.Verdict.Accept,
		Prompt: o.Prompt, Output: o.Accepted + o.Target,
		Holdback: o.Drafted, Salvaged: o.Accepted,
	})
}

// recordWarmup counts a request during the warm-up of its traffic class. The first one starts the warm-up, whether it
// had a draft or not.
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

// recordCost counts what the request cost, and what the target alone would have cost, at the same token prices. The
// receipt has the same numbers.
func (c *Cascade) recordCost(r *inflight.Request, o *strategy.Outcome, record *receipt.Recorder) {
	p := r.TokenPrices()
	if !p.Complete() {
		return
	}
	alone, spent := costOf(&p, o)
	c.metrics.addCost(r.Route, alone, spent)
	record.RecordComparison(alone, spent)
}

// costOf returns what the target alone would have cost, and what the request cost, in USD by the prices of tokens.
func costOf(p *economy.Prices, o *strategy.Outcome) (alone, spent float64) {
	prompt, output := float64(o.Prompt), float64(o.Accepted+o.Target)
	alone = prompt*p.TargetPrefill + output*p.TargetDecode
	spent = float64(o.Scored)*p.TargetPrefill + float64(o.Target)*p.TargetDecode
	if o.IsJudged() {
		spent += prompt*p.DraftPrefill + float64(o.Drafted)*p.DraftDecode
	}
	if o.Target > 0 && o.Scored == 0 { // scored tokens are in the KV cache already
		spent += (prompt + float64(o.Accepted)) * p.TargetPrefill
	}
	return alone, spent
}

// fundAudits adds a share of what the target alone would have cost to the audit budget. It is not a share of the target's
// own tokens: the more drafts are served, the fewer these are, and the more there is to audit.
// It also counts the answer for its evidence key.
func (c *Cascade) fundAudits(r *inflight.Request, o *strategy.Outcome) {
	if !r.Config.Mode.Audited() && !r.Config.VerifyDrafts.Checks() {
		return
	}
	t := o.Tally
	t.Prompt = cmp.Or(t.Prompt, r.Body.PromptTokens)
	c.audits.AddBudget(r, receipt.Tally{Prompt: t.Prompt, Target: t.Accepted + t.Target})
	if r.AuditDecision != nil && o.Finish != "" {
		c.audits.AddAnswer(r.AuditDecision.Own.Key, t, o.IsJudged())
	}
}

// Workload returns what the requests of an evidence key are like at this replica.
func (c *Cascade) Workload(k risk.Key) audit.Workload { return c.audits.Workload(k) }

// CostStatistics returns the cost statistics, for metrics and status.
func (c *Cascade) CostStatistics() *economy.Statistics { return c.costs }
