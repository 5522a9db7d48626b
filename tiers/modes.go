package tiers

import (
	"time"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
)

// ModeState says whether a route's engines allow a mode.
type ModeState struct {
	Mode  Mode
	Lacks string // the reason with which requests bypass the draft; "" where the mode works
	Why   string // in words
}

// Modes says which modes the engines of a route allow, as far as they were probed.
func (c *Cascade) Modes(rt *Route) []ModeState {
	if rt.Draft == nil {
		return nil
	}
	f := Facts{Request: &openai.Request{}, HasDraft: true, SameTokenizer: rt.SameTokenizer, Draft: c.cards(rt.Draft.Name()), Target: c.cards(rt.Target.Name())}
	all := []ModeState{{Mode: ModeConfidence}}
	if f.Draft != nil && f.Draft.Unscored && rt.Config().Unscored == UnscoredEscalate {
		all[0] = ModeState{ModeConfidence, "draft_without_logprobs", "pool " + rt.Draft.Name() + ": " + f.Draft.Lacks(probe.MissingLogprobs)}
	}
	audited := ModeState{Mode: ModeRisk}
	if _, audited.Lacks = auditorFor(rt.Config(), f); audited.Lacks != "" {
		audited.Why = f.whyLacking(audited.Lacks, rt.Target.Name())
	}
	all = append(all, audited)
	for _, m := range [...]Mode{ModeLenient, ModeJudge, ModeVerify} {
		s := ModeState{Mode: m}
		if _, s.Lacks = scorerFor(Config{Mode: m}, f); s.Lacks != "" {
			s.Why = f.whyLacking(s.Lacks, rt.Target.Name())
		}
		all = append(all, s)
	}
	return all
}

// DraftsAlone reports whether drafts of a route may be answers without a word of its target, by its
// mode and by what is known of its engines. Requests that demand the draft do not count.
func (c *Cascade) DraftsAlone(rt *Route) bool {
	return PlanFor(rt.Config(), c.facts(rt, &openai.Request{SinglePlain: true}, Auto)).alone()
}

// whyLacking words the reason of a plan that a card is behind.
func (f Facts) whyLacking(reason, target string) string {
	what := map[string]string{
		"target_unprobed": probe.MissingScoring, "target_without_scoring": probe.MissingScoring,
		"target_without_logprobs": probe.MissingLogprobs, "tokenizers_differ": probe.MissingTokenize,
	}[reason]
	why := f.Target.Lacks(what)
	if reason == "tokenizers_differ" && why == "" {
		why = "the pools' tokenizers or templates differ"
	}
	return "pool " + target + ": " + why
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
