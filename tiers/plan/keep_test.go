package plan

import (
	"testing"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/risk"
)

func TestWhenAnAnswerMayBeKeptForOthers(t *testing.T) {
	own := risk.View{Op: 5, Threshold: -1, Sure: -0.5}
	verdict := func(score accept.Nats, reason string) accept.Verdict {
		return accept.Verdict{Accept: reason != accept.ReasonCut, Reason: reason, Score: score}
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
		"a draft with a target's end":   {Served{Verdict: verdict(-2, accept.ReasonCut), Accepted: 9}, &AuditDecision{}, all(KeepNow)},
		"checked as a whole":            {served(verdict(-2, accept.ReasonTargetAgrees)), &AuditDecision{}, all(KeepNow)},
		"sure":                          {served(verdict(-0.4, accept.ReasonConfident)), &AuditDecision{}, when{VerifyNever: KeepNow, VerifyDoubtful: KeepNow, VerifyAlways: KeepUnlessRejected}},
		"doubtful":                      {served(verdict(-0.6, accept.ReasonConfident)), &AuditDecision{}, when{"": KeepNow, VerifyNever: KeepNow, VerifyDoubtful: KeepIfChecked, VerifyAlways: KeepIfChecked}},
		"served though rejected":        {served(verdict(0, accept.ReasonCut)), &AuditDecision{}, when{VerifyNever: KeepNow, VerifyDoubtful: KeepIfChecked}},
		"audited":                       {served(verdict(0, accept.ReasonConfident)), audited, when{VerifyNever: KeepNow, VerifyDoubtful: KeepIfAudited, VerifyAlways: KeepIfAudited}},
		"of a warm-up":                  {served(verdict(9, accept.ReasonConfident)), warm, when{"": KeepIfAudited, VerifyNever: KeepIfAudited, VerifyDoubtful: KeepIfChecked, VerifyAlways: KeepIfChecked}},
		"of a warm-up, audited":         {served(verdict(9, accept.ReasonConfident)), warmAudited, all(KeepIfAudited)},
		"begun by a warm-up":            {Served{Verdict: verdict(-9, accept.ReasonCut), Accepted: 9}, warm, all(KeepIfAudited)},
		"the target's, in a warm-up":    {Served{Verdict: verdict(-9, accept.ReasonCut)}, warm, all(KeepNow)},
		"checked, in a warm-up":         {served(verdict(-2, accept.ReasonTargetAgrees)), warm, all(KeepNow)},
	} {
		for setting, want := range c.want {
			cfg := Config{Mode: ModeRisk, VerifyDrafts: setting}
			if got := cfg.KeepingOf(c.served, &Decision{Audit: c.audit}, own); got != want {
				t.Errorf("%s, %q: %d, want %d", name, setting, got, want)
			}
		}
	}
}

func TestInModeConfidenceTheBandAboveTheThresholdIsDoubtful(t *testing.T) {
	cfg, d := Config{Mode: ModeConfidence, VerifyDrafts: VerifyDoubtful}, Decision{Accept: accept.Config{Threshold: -0.5}}
	for score, want := range map[accept.Nats]Keeping{-0.45: KeepIfChecked, -0.21: KeepIfChecked, -0.2: KeepNow, 0: KeepNow} {
		v := accept.Verdict{Accept: true, Reason: accept.ReasonConfident, Score: score}
		if got := cfg.KeepingOf(Served{Verdict: v, Whole: true, Accepted: 9}, &d, risk.View{}); got != want {
			t.Errorf("score %g: %d, want %d", score, got, want)
		}
	}
}

// The key of a kept answer reads the policy by which its draft was judged, and nothing that changes while that holds.
func TestAKeptAnswerIsFoundByThePolicyThatMadeIt(t *testing.T) {
	judged := Plan{Tier: Draft, Judged: true}
	base := Config{Mode: ModeRisk, MidstreamFailover: true, Risk: Risk{Label: LabelLenient, Rule: risk.Rule{MaxDisagreement: .1, ErrorProbability: .05}}}
	for what, c := range map[string]struct {
		change func(*Config)
		same   bool
	}{
		"another mode":      {func(c *Config) { c.Mode = ModeConfidence }, false},
		"another label":     {func(c *Config) { c.Risk.Label = LabelExact }, false},
		"another bound":     {func(c *Config) { c.Risk.Rule.MaxDisagreement = .05 }, false},
		"low's own bound":   {func(c *Config) { c.Risk.Rule.MaxDisagreementLow = .2; *c = c.ForLow() }, false},
		"of others for low": {func(c *Config) { c.Risk.Rule.MaxDisagreementLow = .2 }, true},
		"low without one":   {func(c *Config) { *c = c.ForLow() }, true},
		"more certain":      {func(c *Config) { c.Risk.Rule.ErrorProbability = .01 }, false},
		"another rule":      {func(c *Config) { c.VerifyRule = RuleExact }, false},
		"checked more":      {func(c *Config) { c.VerifyDrafts = VerifyAlways }, false},
		"nobody takes over": {func(c *Config) { c.MidstreamFailover = false }, true},
		"another threshold": {func(c *Config) { c.Accept.Threshold = 1 }, true},
		"another score":     {func(c *Config) { c.Accept.ScoreMap = &accept.ScoreMap{Version: 3} }, true},
		"the guard":         {func(c *Config) { c.Economy.Enabled = true }, true},
		"other timeouts":    {func(c *Config) { c.Timeouts.Total = 1 }, true},
	} {
		cfg := base
		c.change(&cfg)
		if same := judged.CacheTier(&cfg) == judged.CacheTier(&base); same != c.same {
			t.Errorf("%s: the same key %t", what, same)
		}
		if alone := (Plan{Tier: Target}); alone.CacheTier(&cfg) != "target" {
			t.Errorf("%s: the target's own answer is kept under %q", what, alone.CacheTier(&cfg))
		}
	}
}
