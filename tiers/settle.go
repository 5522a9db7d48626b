package tiers

import (
	"cmp"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// settle counts an outcome, and adds it to the budget of audits, the warm-up and the cost statistics. Failed requests, and
// those that never had a draft, are not part of the statistics.
func (c *Cascade) settle(r *Request, err error) {
	c.metrics.countOutcome(r.Receipt, r.Config.Mode)
	c.metrics.applications.count(r)
	if err == nil {
		r.compareWithTarget()
	}
	c.fundAudits(r)
	c.recordWarmup(r, err)
	switch r.Verdict.Reason {
	case accept.ReasonLost, accept.ReasonNoVerdict:
		return
	}
	if err != nil || !r.WasJudged() && r.Reason() != economy.ReasonNoSaving {
		return
	}
	c.costs.Learn(trafficClassOf(r, &r.Decision.Plan), economy.Outcome{
		Drafted: r.WasJudged(), Served: r.Tier == plan.Draft && r.Verdict.Accept,
		Prompt: r.PromptTokens, Output: r.AcceptedTokens + r.TargetTokens,
		Holdback: r.DraftedTokens, Salvaged: r.AcceptedTokens,
	})
}

// recordWarmup counts a request during the warm-up of its traffic class. The first one starts the warm-up, whether it
// had a draft or not.
func (c *Cascade) recordWarmup(r *Request, err error) {
	t := r.Decision.Audit
	if t == nil || !r.Views.IsFirstTime(&r.Config.Risk) {
		return
	}
	made, served := 0, 0
	if r.WasJudged() || t.Shadow {
		made = 1
	}
	if err == nil && r.ServedByWarmup() {
		served = 1
	}
	c.audits.Evidence.Drafted(t.Own.Key, made, served)
}

// compareWithTarget records what a drafted answer has saved: what the target alone would have cost, at the same prices, less
// what it cost. The target would have had as much of the prompt in its cache as the backends had that answered.
func (r *Request) compareWithTarget() {
	if !r.WasJudged() {
		return
	}
	price := r.Target.TokenPrice()
	r.Unpriced = r.Unpriced || !price.Known()
	if !r.Unpriced {
		alone := economy.Work{Prompt: r.PromptTokens, Cached: r.CachedTokens, Answer: r.AcceptedTokens + r.TargetTokens}
		r.SavedUSD = economy.CostOfWork(price, alone) - r.USD
	}
}

// fundAudits adds a share of what the target alone would have cost to the audit budget. It is not a share of the target's
// own tokens: the more drafts are served, the fewer these are, and the more there is to audit.
// It also counts the answer for its evidence key.
func (c *Cascade) fundAudits(r *Request) {
	if !r.Config.Mode.Audited() && !r.Config.VerifyDrafts.Checks() {
		return
	}
	t := audit.Tally{Prompt: cmp.Or(r.PromptTokens, r.Body.PromptTokens), Accepted: r.AcceptedTokens, Target: r.TargetTokens, Drafted: r.DraftedTokens}
	cost := audit.Tally{Prompt: t.Prompt, Target: t.Accepted + t.Target}.TargetCost(r.TokenPrices().Target())
	c.audits.AddBudget(r.Body.Model, r.Config.Risk.AuditBudget*cost)
	if r.Decision.Audit != nil && r.Finish != "" {
		c.audits.Classes.AddAnswer(r.Decision.Audit.Own.Key, t, r.WasJudged(), c.World.Now())
	}
}

// Workload returns what the requests of an evidence key are like at this replica.
func (c *Cascade) Workload(k risk.Key) audit.Workload {
	return c.audits.Classes.Workload(k, c.World.Now())
}

// CostStatistics returns the cost statistics, for metrics and status.
func (c *Cascade) CostStatistics() *economy.Statistics { return &c.costs }
