package tiers

import (
	"time"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/probe"
)

// Modes says which modes the engines of a route allow, as far as they were probed.
func (c *Cascade) Modes(rt *Route) []plan.ModeState {
	if rt.Draft == nil {
		return nil
	}
	f := plan.Facts{Request: &openai.Request{}, HasDraft: true, SameTokenizer: rt.SameTokenizer, Draft: c.cards(rt.Draft.Name()), Target: c.cards(rt.Target.Name())}
	all := []plan.ModeState{{Mode: plan.ModeConfidence}}
	if f.Draft != nil && f.Draft.Unscored && rt.Config().Unscored == plan.UnscoredEscalate {
		all[0] = plan.ModeState{Mode: plan.ModeConfidence, Lacks: "draft_without_logprobs", Why: "pool " + rt.Draft.Name() + ": " + f.Draft.Lacks(probe.MissingLogprobs)}
	}
	audited := plan.ModeState{Mode: plan.ModeRisk}
	if _, audited.Lacks = plan.AuditorFor(rt.Config(), f); audited.Lacks != "" {
		audited.Why = f.WhyLacking(audited.Lacks, rt.Target.Name())
	}
	all = append(all, audited)
	for _, m := range [...]plan.Mode{plan.ModeLenient, plan.ModeJudge, plan.ModeVerify} {
		s := plan.ModeState{Mode: m}
		if _, s.Lacks = plan.ScorerFor(plan.Config{Mode: m}, f); s.Lacks != "" {
			s.Why = f.WhyLacking(s.Lacks, rt.Target.Name())
		}
		all = append(all, s)
	}
	return all
}

// DraftsAlone reports whether drafts of a route may be answers without a word of its target, by its
// mode and by what is known of its engines. Requests that demand the draft do not count.
func (c *Cascade) DraftsAlone(rt *Route) bool {
	return plan.Make(rt.Config(), c.facts(rt, &openai.Request{SinglePlain: true}, plan.Auto)).Alone()
}

// BlocksRefused says why mode verify checks whole answers of a route although blocks are set, ""
// where it need not.
func (c *Cascade) BlocksRefused(rt *Route) string {
	if rt.Draft == nil {
		return ""
	}
	card := c.cards(rt.Target.Name())
	if cfg := rt.Config(); cfg.Block == 0 || cfg.Costly || card == nil || card.Reuse {
		return ""
	}
	return "pool " + rt.Target.Name() + ": scoring computes the whole prompt anew each time; whole answers are checked instead of blocks"
}

// Scoring tells whether nothing is scored at a pool now, why, and until when.
func (c *Cascade) Scoring(pool string) (open bool, why string, until time.Time) {
	return c.scores.State(pool)
}
