package plan

import (
	"testing"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/risk"
)

func TestWhenAnAnswerMayBeKeptForOthers(t *testing.T) {
	own := risk.View{Op: 5, Threshold: -1, Sure: -0.5}
	verdict := func(score accept.Nats, c accept.Cohort) accept.Verdict {
		return accept.Verdict{Accept: c != "", Reason: "any", Score: score, Cohort: c}
	}
	audited, warm := &AuditDecision{Own: risk.Decision{Audited: true}}, &AuditDecision{Warmup: true}
	warmAudited := &AuditDecision{Warmup: true, Own: risk.Decision{Audited: true}}
	type when map[VerifyDrafts]Keeping
	all := func(k Keeping) when { return when{"": k, VerifyNever: k, VerifyDoubtful: k, VerifyAlways: k} }
	served := func(v accept.Verdict) Served { return Served{Verdict: v, Whole: true, Accepted: 50} }
	for name, c := range map[string]struct {
		served Served
		audit  *AuditDecision
		want   when
	}{
		"the target's":                  {Served{}, &AuditDecision{}, all(KeepNow)},
		"the target's, draft in shadow": {Served{}, &AuditDecision{Shadow: true, Own: risk.Decision{Audited: true}}, all(KeepNow)},
		"a draft that was demanded":     {Served{Whole: true, Accepted: 50}, nil, all(KeepNow)},
		"a draft with a target's end":   {Served{Verdict: verdict(-2, ""), Accepted: 9}, &AuditDecision{}, all(KeepNow)},
		"checked as a whole":            {served(verdict(-2, accept.CohortWhole)), &AuditDecision{}, all(KeepNow)},
		"sure":                          {served(verdict(-0.4, accept.CohortConfidence)), &AuditDecision{}, when{VerifyNever: KeepNow, VerifyDoubtful: KeepNow, VerifyAlways: KeepUnlessRejected}},
		"doubtful":                      {served(verdict(-0.6, accept.CohortConfidence)), &AuditDecision{}, when{"": KeepNow, VerifyNever: KeepNow, VerifyDoubtful: KeepIfChecked, VerifyAlways: KeepIfChecked}},
		"served though rejected":        {served(verdict(0, "")), &AuditDecision{}, when{VerifyNever: KeepNow, VerifyDoubtful: KeepIfChecked}},
		"audited":                       {served(verdict(0, accept.CohortConfidence)), audited, when{VerifyNever: KeepNow, VerifyDoubtful: KeepIfAudited, VerifyAlways: KeepIfAudited}},
		"of a warm-up":                  {served(verdict(9, accept.CohortWarmup)), warm, when{"": KeepIfAudited, VerifyNever: KeepIfAudited, VerifyDoubtful: KeepIfChecked, VerifyAlways: KeepIfChecked}},
		"of a warm-up, audited":         {served(verdict(9, accept.CohortWarmup)), warmAudited, all(KeepIfAudited)},
		"begun by a warm-up":            {Served{Verdict: verdict(-9, ""), Accepted: 9}, warm, all(KeepIfAudited)},
		"the target's, in a warm-up":    {Served{Verdict: verdict(-9, "")}, warm, all(KeepNow)},
		"checked, in a warm-up":         {served(verdict(-2, accept.CohortWhole)), warm, all(KeepNow)},
	} {
		for setting, want := range c.want {
			cfg := Config{Mode: ModeRisk, VerifyDrafts: setting}
			if got := cfg.KeepingOf(c.served, c.audit, own); got != want {
				t.Errorf("%s, %q: %d, want %d", name, setting, got, want)
			}
		}
	}
}

func TestInModeConfidenceTheBandAboveTheThresholdIsDoubtful(t *testing.T) {
	cfg := Config{Mode: ModeConfidence, VerifyDrafts: VerifyDoubtful, Accept: accept.Config{Threshold: -0.5}}
	for score, want := range map[accept.Nats]Keeping{-0.45: KeepIfChecked, -0.21: KeepIfChecked, -0.2: KeepNow, 0: KeepNow} {
		v := accept.Verdict{Accept: true, Reason: accept.ReasonConfident, Score: score, Cohort: accept.CohortConfidence}
		if got := cfg.KeepingOf(Served{Verdict: v, Whole: true, Accepted: 9}, nil, risk.View{}); got != want {
			t.Errorf("score %g: %d, want %d", score, got, want)
		}
	}
}

func TestAnAnswerThatWasKeptUnderALaxerSettingIsOfAnotherRule(t *testing.T) {
	seen := map[string]VerifyDrafts{}
	for _, v := range []VerifyDrafts{VerifyNever, VerifyDoubtful, VerifyAlways} {
		cfg := Config{Mode: ModeRisk, VerifyDrafts: v}
		if was, ok := seen[cfg.Fingerprint()]; ok {
			t.Errorf("%s and %s share answers", was, v)
		}
		seen[cfg.Fingerprint()] = v
	}
}
