package plan

import (
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/risk"
)

func TestTryDecidesWhoSeesTheDraftAndWhetherItIsAudited(t *testing.T) {
	cold := risk.View{Version: 1, Hi: 3, Threshold: 1e9, Floor: 0.4, Band: -2}
	warm := risk.View{Version: 1, Op: 5, Hi: 8, Threshold: 0.3, Floor: 0, Band: -2}
	hopeless := cold
	hopeless.Infeasible = true
	drafted := Plan{Tier: Draft, Judged: true, Mode: ModeRisk, Auditor: ScorerIDs}
	asking := drafted
	asking.CheckPolicy, asking.Scorer = accept.CheckDoubtful, ScorerIDs
	whole := asking
	whole.Whole = true
	shut := Plan{Tier: Target, Reason: economy.ReasonNoSaving, Auditor: ScorerIDs}
	for _, tc := range []struct {
		what      string
		mode      Mode
		plan      Plan
		views     Views
		random    float64
		tier      Tier
		Reason    string
		threshold accept.Nats
		band      accept.Nats
		ask       accept.CheckPolicy
		audited   bool
		shadow    bool
	}{
		{what: "certified", mode: ModeRisk, plan: drafted, views: Views{Own: warm}, random: 0.5, tier: Draft, threshold: 0.3},
		{what: "certified and audited", mode: ModeRisk, plan: drafted, views: Views{Own: warm}, tier: Draft, threshold: 0.3, audited: true},
		{what: "nothing certified", mode: ModeRisk, plan: drafted, views: Views{Own: cold}, random: 0.6, tier: Target, Reason: "uncertified", threshold: 1e9},
		{what: "nothing certified, in the shadow", mode: ModeRisk, plan: drafted, views: Views{Own: cold}, random: 0.4, tier: Target, Reason: "uncertified", threshold: 1e9, audited: true, shadow: true},
		{what: "nothing can be certified", mode: ModeRisk, plan: drafted, views: Views{Own: hopeless}, random: 0.1, tier: Target, Reason: "infeasible", threshold: 1e9},
		{what: "explored all the same", mode: ModeRisk, plan: drafted, views: Views{Own: hopeless}, random: 0.01, tier: Target, Reason: "infeasible", threshold: 1e9, audited: true, shadow: true},
		{what: "mode shadow", mode: ModeShadow, plan: drafted, views: Views{Own: warm}, tier: Target, Reason: "shadow", threshold: 0.3, audited: true, shadow: true},
		{what: "the guard keeps it from the draft", mode: ModeRisk, plan: shut, views: Views{Own: warm}, random: 0.6, tier: Target, Reason: economy.ReasonNoSaving, threshold: 0.3},
		{what: "the guard does, and evidence is gathered", mode: ModeRisk, plan: shut, views: Views{Own: warm}, random: 0.4, tier: Target, Reason: economy.ReasonNoSaving, threshold: 0.3, audited: true, shadow: true},
		{what: "doubtful heads have no evidence yet", mode: ModeRisk, plan: asking, views: Views{Own: warm, Head: cold}, random: 0.5, tier: Draft, threshold: 0.3, band: 2.3},
		{what: "doubtful heads are certified", mode: ModeRisk, plan: asking, views: Views{Own: warm, Head: warm}, random: 0.5, tier: Draft, threshold: 0.3, band: 2.3, ask: accept.CheckDoubtful},
		{what: "doubtful answers are checked whole", mode: ModeRisk, plan: whole, views: Views{Own: warm}, random: 0.5, tier: Draft, threshold: 0.3, band: 2.3, ask: accept.CheckDoubtful},
	} {
		t.Run(tc.what, func(t *testing.T) {
			cfg := planConfig()
			cfg.Mode = tc.mode
			cfg.Risk = Risk{Rates: risk.Rates{Audit: 0.05, ColdStart: 0.5, ColdStartPerMinute: 1e9, Boost: 4, Explore: 0.02}}
			p, got, decision := tc.plan.ApplyEvidence(cfg, EvidenceKeys{}, tc.views, tc.random)
			if p.Tier != tc.tier || p.Reason != tc.Reason || p.CheckPolicy != tc.ask || p.Judged != (tc.tier == Draft) {
				t.Errorf("plan %+v", p)
			}
			if got.Accept.Threshold != tc.threshold || got.Accept.Band != tc.band {
				t.Errorf("threshold %g, band %g", got.Accept.Threshold, got.Accept.Band)
			}
			if decision.IsAudited() != tc.audited || decision.Shadow != tc.shadow {
				t.Errorf("audited %v, in the shadow %v", decision.IsAudited(), decision.Shadow)
			}
		})
	}
}

func TestWhatIsNotOfAnAuditedModeIsNotTried(t *testing.T) {
	cfg := planConfig()
	for _, tc := range []struct {
		mode Mode
		plan Plan
	}{
		{ModeConfidence, Plan{Tier: Draft, Judged: true}},
		{ModeRisk, Plan{Tier: Target, Reason: "demanded"}},
		{ModeRisk, Plan{Tier: Draft, Reason: "demanded"}},
	} {
		cfg.Mode = tc.mode
		if p, got, decision := tc.plan.ApplyEvidence(cfg, EvidenceKeys{}, Views{}, 0); decision != nil || p != tc.plan || got != cfg {
			t.Errorf("%s, %+v: %+v, %+v", tc.mode, tc.plan, p, decision)
		}
	}
}

func TestAClassSaysWhetherItsRequestsAreGreedy(t *testing.T) {
	for class, want := range map[string]bool{
		"all_t0.0a1b2c3d": true, "to_1k_t0.0a1b2c3d.acme": true, "all_t0": true, "all.0a1b2c3d": false, "all.0a1b2c3d.who_t0": false, "": false,
	} {
		if got := IsGreedy(class); got != want {
			t.Errorf("%q: %v", class, got)
		}
	}
	f := Facts{Request: &openai.Request{Model: "m"}}
	if !IsGreedy(EvidenceKeysOf(Config{}, f).Own.TrafficClass) {
		t.Error("a request at temperature 0 is not greedy")
	}
	f.Request.Temperature = 0.1
	if IsGreedy(EvidenceKeysOf(Config{}, f).Own.TrafficClass) {
		t.Error("a request at temperature 0.1 is greedy")
	}
}

func TestEvidenceIsKeptApartWhereverItsMeaningDiffers(t *testing.T) {
	cfg := planConfig()
	cfg.Mode, cfg.Risk.Label = ModeRisk, LabelLenient
	capabilities := func(model string) *probe.Capabilities {
		return &probe.Capabilities{At: time.Unix(1, 0), Model: model, Tokenizer: "t", Template: "t"}
	}
	base := Facts{Request: &openai.Request{Model: "m", PromptTokens: 100}, Draft: capabilities("small"), Target: capabilities("big")}
	cfg.Risk.Scope = ScopePromptLength
	was := EvidenceKeysOf(cfg, base)
	for what, change := range map[string]func(*Config, *Facts){
		"a longer prompt":     func(_ *Config, f *Facts) { f.Request = &openai.Request{Model: "m", PromptTokens: 2000} },
		"another draft":       func(_ *Config, f *Facts) { f.Draft = capabilities("smaller") },
		"another target":      func(_ *Config, f *Facts) { f.Target = capabilities("bigger") },
		"other weights":       func(_ *Config, f *Facts) { f.Revisions = " 2026-11-01" },
		"another template":    func(_ *Config, f *Facts) { f.Target = capabilities("big"); f.Target.Template = "u" },
		"a tenant's own":      func(_ *Config, f *Facts) { f.EvidenceTenant = "acme" },
		"another label":       func(c *Config, _ *Facts) { c.Risk.Label = LabelJudge },
		"another strictness":  func(c *Config, _ *Facts) { c.Strictness = accept.StrictLoose },
		"another score":       func(c *Config, _ *Facts) { c.Risk.ScoreVersion = 3 },
		"other offsets":       func(c *Config, _ *Facts) { c.Accept.MeanOffset -= 1 },
		"another route":       func(_ *Config, f *Facts) { f.Request = &openai.Request{Model: "n", PromptTokens: 100} },
		"a longer hold-back":  func(c *Config, _ *Facts) { c.HoldbackTokens++ },
		"refusals are drafts": func(c *Config, _ *Facts) { c.EscalateRefusals = true },
	} {
		c, f := cfg, base
		change(&c, &f)
		if now := EvidenceKeysOf(c, f); now.Own == was.Own || now.Head == was.Head {
			t.Errorf("%s: the same evidence, %v", what, now.Own)
		}
	}
	for what, change := range map[string]func(*Config, *Facts){
		"the same length": func(_ *Config, f *Facts) { f.Request = &openai.Request{Model: "m", PromptTokens: 1000} },
		"another rate":    func(c *Config, _ *Facts) { c.Risk.Rates.Audit = 0.5 },
		"another ε":       func(c *Config, _ *Facts) { c.Risk.Rule.MaxWrongRate = 0.01 },
	} {
		c, f := cfg, base
		change(&c, &f)
		if now := EvidenceKeysOf(c, f); now != was {
			t.Errorf("%s: other evidence, %v", what, now.Own)
		}
	}
}

func TestAKeyOfAnotherScoreIsTheSameButForItsVersion(t *testing.T) {
	for _, tenant := range []string{"", "acme", "acme.eu-v2"} {
		cfg := Config{}
		f := Facts{Request: &openai.Request{Model: "org/chat", PromptTokens: 2000}, EvidenceTenant: tenant}
		keys := map[int]risk.Key{}
		for _, version := range []int{0, 1, 1_000_000} {
			cfg.Risk.ScoreVersion = version
			keys[version] = EvidenceKeysOf(cfg, f).Own
		}
		for from, k := range keys {
			for to, want := range keys {
				if got := ScoredBy(k, to); got != want || from != to && got == k {
					t.Errorf("tenant %q: %d to %d is %v, want %v", tenant, from, to, got, want)
				}
			}
		}
	}
}
