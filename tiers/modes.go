package tiers

import (
	"time"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/probe"
)

// Modes returns which modes the engines of a route support, as far as they were probed.
func (c *Cascade) Modes(rt *Route) []plan.ModeState {
	if rt.Draft == nil {
		return nil
	}
	f := plan.Facts{Request: &openai.Request{}, HasDraft: true, SameTokenizer: rt.SameTokenizer, Draft: c.capabilities(rt.Draft.Name()), Target: c.capabilities(rt.Target.Name())}
	unscored := plan.ModeState{} // a draft without logprobs has no score
	if f.Draft != nil && f.Draft.Unscored {
		unscored = plan.ModeState{Missing: "draft_without_logprobs", Reason: "pool " + rt.Draft.Name() + ": " + f.Draft.MissingReason(probe.MissingLogprobs)}
	}
	audited := unscored
	if audited.Missing == "" {
		if _, audited.Missing = plan.AuditorFor(rt.Config(), f); audited.Missing != "" {
			audited.Reason = f.MissingReason(audited.Missing, rt.Target.Name())
		}
	}
	confident := unscored
	confident.Mode, audited.Mode = plan.ModeConfidence, plan.ModeRisk
	verified := plan.ModeState{Mode: plan.ModeVerify}
	if _, verified.Missing = plan.ScorerFor(f); verified.Missing != "" {
		verified.Reason = f.MissingReason(verified.Missing, rt.Target.Name())
	}
	return []plan.ModeState{confident, audited, verified}
}

// ServesUncheckedDrafts reports whether drafts of a route may be served while its target is unreachable, by the route's
// mode and its engines. Requests that demand the draft do not count.
func (c *Cascade) ServesUncheckedDrafts(rt *Route) bool {
	return plan.Make(rt.Config(), c.facts(rt, &openai.Request{SinglePlain: true}, plan.Auto)).MayServeUnchecked()
}

// MayScore asks whether a probe may ask a backend to score so many tokens now; leave is told what came of it.
func (c *Cascade) MayScore(pool, backend string, tokens int) (leave func(error), err error) {
	return c.scores.Try(pool, backend, tokens, c.World)
}

// ScoringState returns whether scoring is suspended at a pool, why, and until when.
func (c *Cascade) ScoringState(pool string) (open bool, why string, until time.Time) {
	return c.scores.State(pool)
}
