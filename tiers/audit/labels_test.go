package audit

import (
	"testing"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/risk"
)

// last is what the labels said of the last audited draft.
func (r *rig) last() risk.Labels {
	r.t.Helper()
	r.rests()
	if len(r.results) == 0 {
		r.t.Fatal("no audit was closed")
	}
	return r.results[len(r.results)-1].Labels
}

func TestOneScoreTellsWhatEveryLabelSays(t *testing.T) {
	play(t, func(r *rig) {
		r.watched()
		r.happens("the target stands by it", "open own t1", "score", "close t1 good")
		if got, want := new(r.last()).String(), "exact=good lenient=good"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		r.refuses = true // after a third of the draft
		r.watched()
		r.rests()
		if got, want := new(r.last()).String(), "exact=bad lenient=bad"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestOnlyTheLabelInForceDecides has a token with a third of the first choice's probability: exact does not forgive it.
func TestOnlyTheLabelInForceDecides(t *testing.T) {
	play(t, func(r *rig) {
		r.target = func(a *engine.Attempt) error {
			if s, ok := a.Call.(*engine.Score); ok {
				s.Into.Tokens = append(s.Into.Tokens, openai.Scored{Logprob: -1.8, Top: -0.69, TopID: 7})
				s.Question.Draft = s.Question.Draft[1:] // the rig scores the rest
			}
			return nil
		}
		for _, label := range []plan.Label{plan.LabelExact, plan.LabelLenient} {
			r.subject.Config.Risk.Label = label
			r.watched()
			if got, want := new(r.last()).String(), "exact=bad lenient=good"; got != want {
				t.Errorf("%s: %s, want %s", label, got, want)
			}
		}
		if !r.results[0].Bad || r.results[1].Bad {
			t.Errorf("%+v", r.results)
		}
	})
}

func TestWhereTheDrawSaysSoTheJudgeIsAskedBesideTheLabel(t *testing.T) {
	play(t, func(r *rig) {
		r.subject.AskJudge = true
		r.watched()
		r.happens("drawn", "open own t1", "score", "judge", "close t1 good")
		if got := r.last(); got.Of(risk.LabelJudge) != risk.OutcomeGood || got.Of(risk.LabelLenient) != risk.OutcomeGood {
			t.Error(got.String())
		}
		if n := len(r.audited); n != 1 || r.audited[0] <= 14 {
			t.Errorf("audits of %v tokens: the judge's are missing", r.audited)
		}
		r.target = func(a *engine.Attempt) error {
			if _, ok := a.Call.(*engine.Judge); ok {
				return &engine.Failure{Kind: engine.ServerError, Status: 500}
			}
			return nil
		}
		r.watched()
		r.happens("the judge does not answer", "open own t2", "score", "judge", "close t2 good")
		if got := r.last(); got.Of(risk.LabelJudge) != risk.OutcomeUnknown {
			t.Error(got.String())
		}
	})
}

func TestAJudgedDraftHasTheJudgesLabelOnly(t *testing.T) {
	play(t, func(r *rig) {
		r.subject.Plan.Auditor, r.subject.Config.Risk.Label, r.subject.AskJudge = plan.ScorerJudge, plan.LabelJudge, true
		r.watched()
		r.happens("asked once", "open own t1", "judge", "close t1 good")
		if got := new(r.last()).String(); got != "judge=good" {
			t.Error(got)
		}
		r.subject.Config.Risk.Label, r.subject.AskJudge = plan.LabelRegenerate, false
		r.watched()
		if got := new(r.last()).String(); got != "judge=good regenerate=good" {
			t.Error(got)
		}
	})
}

func TestTheJudgeIsAskedBesideALabelWhereTheTargetCan(t *testing.T) {
	cfg, target := plan.Config{}, &probe.Capabilities{}
	cfg.Risk.Label = plan.LabelLenient
	if !plan.MayAskJudge(&cfg, target, plan.ScorerIDs, false) {
		t.Error("not asked")
	}
	silent := &probe.Capabilities{Missing: []probe.MissingCapability{{Name: probe.MissingLogprobs, Reason: "because"}}}
	for what, may := range map[string]bool{
		"a tool call":            plan.MayAskJudge(&cfg, target, plan.ScorerIDs, true),
		"the judge is the label": plan.MayAskJudge(&cfg, target, plan.ScorerJudge, false),
		"unprobed":               plan.MayAskJudge(&cfg, nil, plan.ScorerIDs, false),
		"without logprobs":       plan.MayAskJudge(&cfg, silent, plan.ScorerIDs, false),
	} {
		if may {
			t.Errorf("%s: asked", what)
		}
	}
}
