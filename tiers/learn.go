package tiers

import (
	"cmp"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/plan"
)

// learn writes what became of the request into the book that the next are weighed by. What
// failed, and what was never to be drafted, says nothing of drafts.
func (j *job) learn(err error) {
	rc := j.receipt
	j.fund()
	j.warmed(err)
	shut := rc.Plan.Reason == economy.NoSaving || rc.Plan.Reason == economy.TTFT
	if err != nil || !rc.WasJudged() && !shut || rc.Verdict.Reason == reasonLost || rc.Verdict.Reason == reasonBlock || rc.Verdict.Reason == accept.ReasonNoVerdict {
		return
	}
	j.account()
	served := rc.Tier == plan.Draft && rc.Verdict.Accept && rc.Verdict.Lot != accept.LotPressed
	first := rc.TargetFirst
	if !j.ask.Request.Stream {
		first = 0 // a continuation's first token; the client of a whole answer waits for its last
	}
	j.cascade.book.Learn(bucketOf(j.ask.Request, rc.Plan), economy.Outcome{
		Drafted: rc.WasJudged(), Served: served,
		Prompt: rc.PromptTokens, Output: rc.AcceptedTokens + rc.TargetTokens,
		Held: rc.DraftedTokens, Salvaged: rc.AcceptedTokens,
		FirstByte: rc.First, TargetFirst: first,
	})
}

// warmed notes what became of a request in the time of its kind's warm-up. The first begins it, whether it was drafted or not.
func (j *job) warmed(err error) {
	rc := j.receipt
	if j.trial == nil || !j.views.Early(&j.cfg.Risk) {
		return
	}
	made, served := 0, 0
	if rc.WasJudged() || j.trial.Shadow {
		made = 1
	}
	if err == nil && rc.ServedByWarmup() {
		served = 1
	}
	j.cascade.evidence.Drafted(j.trial.Own.Key, made, served)
}

// account books what the request would have cost the target alone, and what it did cost, by
// the same prices of tokens.
func (j *job) account() {
	rc, rt := j.receipt, j.route
	if rt.Prices == nil {
		return
	}
	p := rt.Prices()
	if !p.Known() {
		return
	}
	prompt, output := float64(rc.PromptTokens), float64(rc.AcceptedTokens+rc.TargetTokens)
	alone := prompt*p.TargetPrefill + output*p.TargetDecode
	spent := float64(rc.ScoredTokens)*p.TargetPrefill + float64(rc.TargetTokens)*p.TargetDecode
	if rc.WasJudged() {
		spent += prompt*p.DraftPrefill + float64(rc.DraftedTokens)*p.DraftDecode
	}
	if rc.TargetTokens > 0 && rc.ScoredTokens == 0 { // what was scored is in the cache
		spent += (prompt + float64(rc.AcceptedTokens)) * p.TargetPrefill
	}
	j.cascade.metrics.priced(rt.Model, alone, spent)
}

// targetCost is what the tokens that the target computed for the receipt cost, in USD where prices
// are known (priced), else in tokens.
func (j *job) targetCost() (cost float64, priced bool) {
	prompt, output, scored := 0, j.receipt.TargetTokens, j.receipt.ScoredTokens
	if output > 0 {
		prompt = cmp.Or(j.receipt.PromptTokens, j.ask.Request.PromptTokens)
	}
	var p economy.Prices
	if j.route.Prices != nil {
		p = j.route.Prices()
	}
	if !p.Known() {
		return float64(prompt + output + scored), false
	}
	return float64(prompt+scored)*p.TargetPrefill + float64(output)*p.TargetDecode, true
}

// fund lets audits cost a share of what the request had the target do.
func (j *job) fund() {
	if j.cfg.Mode.Audited() {
		cost, _ := j.targetCost()
		j.cascade.audits.earn(j.route.Model, j.cfg.Risk.Spend*cost)
	}
}

// Book is what was learned of drafts, for metrics and status.
func (c *Cascade) Book() *economy.Book { return c.book }
