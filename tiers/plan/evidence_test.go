package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/risk"
)

// certify is what is decided by evidence about a plan that was weighed.
func certify(cfg Config, p Plan, v Views, random float64) Decision {
	d := Decision{Plan: p, Accept: cfg.Accept}
	(&Inputs{Config: &cfg, Views: &v, Draw: random}).certify(&d)
	return d
}

func TestTryDecidesWhoSeesTheDraftAndWhetherItIsAudited(t *testing.T) {
	cold := risk.View{Version: 1, Hi: 3, Threshold: 1e9, Floor: 0.4}
	warm := risk.View{Version: 1, Op: 5, Hi: 8, Threshold: 0.3, Floor: 0}
	hopeless := cold
	hopeless.Infeasible = true
	drafted := Plan{Tier: Draft, Judged: true, Mode: ModeRisk, Auditor: ScorerIDs}
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
	} {
		t.Run(tc.what, func(t *testing.T) {
			cfg := planConfig()
			cfg.Mode = tc.mode
			cfg.Risk = Risk{Rates: risk.Rates{Audit: 0.05, ColdStart: 0.5, ColdStartPerMinute: 1e9, Boost: 4, Explore: 0.02}}
			d := certify(cfg, tc.plan, tc.views, tc.random)
			p, decision := d.Plan, d.Audit
			if p.Tier != tc.tier || p.Reason != tc.Reason || p.Checked || p.Judged != (tc.tier == Draft) {
				t.Errorf("plan %+v", p)
			}
			if d.Accept.Threshold != tc.threshold {
				t.Errorf("threshold %g", d.Accept.Threshold)
			}
			if decision.Own.Audited != tc.audited || decision.Shadow != tc.shadow {
				t.Errorf("audited %v, in the shadow %v", decision.Own.Audited, decision.Shadow)
			}
		})
	}
}

func TestStructuredRequestsAreAClassOfTheirOwn(t *testing.T) {
	for more, want := range map[string]string{
		``: "all", `,"temperature":0`: "all_t0", `,"response_format":{"type":"text"}`: "all",
		`,"response_format":{"type":"json_object"}`: "all_structured", `,"temperature":0,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{}}}`: "all_structured_t0",
	} {
		r := scan(t, openai.Chat, `{"model":"m","messages":[{"role":"user","content":"hi"}]`+more+`}`)
		if got := trafficClass(r, false); got != want || IsGreedy(got) != strings.HasSuffix(want, "_t0") {
			t.Errorf("%s: %s, want %s", more, got, want)
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
	if !IsGreedy(EvidenceKeyOf(Config{}, f).TrafficClass) {
		t.Error("a request at temperature 0 is not greedy")
	}
	f.Request.Temperature = 0.1
	if IsGreedy(EvidenceKeyOf(Config{}, f).TrafficClass) {
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
	was := EvidenceKeyOf(cfg, base)
	for what, change := range map[string]func(*Config, *Facts){
		"a grammar": func(_ *Config, f *Facts) {
			f.Request = &openai.Request{Model: "m", PromptTokens: 100, Structured: true}
		},
		"another draft":      func(_ *Config, f *Facts) { f.Draft = capabilities("smaller") },
		"another target":     func(_ *Config, f *Facts) { f.Target = capabilities("bigger") },
		"other weights":      func(_ *Config, f *Facts) { f.Revisions = " 2026-11-01" },
		"another template":   func(_ *Config, f *Facts) { f.Target = capabilities("big"); f.Target.Template = "u" },
		"a tenant's own":     func(_ *Config, f *Facts) { f.EvidenceTenant = "acme" },
		"another label":      func(c *Config, _ *Facts) { c.Risk.Label = LabelJudge },
		"another score":      func(c *Config, _ *Facts) { c.Accept.ScoreMap = &accept.ScoreMap{Version: 3} },
		"another route":      func(_ *Config, f *Facts) { f.Request = &openai.Request{Model: "n", PromptTokens: 100} },
		"a bound of its own": func(c *Config, _ *Facts) { c.Risk.Rule.MaxDisagreementLow = .2; *c = c.ForLow() },
		"a longer hold-back": func(c *Config, _ *Facts) { c.HoldbackTokens++ },
	} {
		c, f := cfg, base
		change(&c, &f)
		if now := EvidenceKeyOf(c, f); now == was {
			t.Errorf("%s: the same evidence, %v", what, now)
		}
	}
	for what, change := range map[string]func(*Config, *Facts){
		"the same length": func(_ *Config, f *Facts) { f.Request = &openai.Request{Model: "m", PromptTokens: 1000} },
		"another rate":    func(c *Config, _ *Facts) { c.Risk.Rates.Audit = 0.5 },
		"another ε":       func(c *Config, _ *Facts) { c.Risk.Rule.MaxDisagreement = 0.01 },
	} {
		c, f := cfg, base
		change(&c, &f)
		if now := EvidenceKeyOf(c, f); now != was {
			t.Errorf("%s: other evidence, %v", what, now)
		}
	}
}

func TestAKeyOfAnotherScoreIsTheSameButForItsVersion(t *testing.T) {
	for _, tenant := range []string{"", "acme", "acme.eu-v2"} {
		cfg := Config{}
		f := Facts{Request: &openai.Request{Model: "org/chat", PromptTokens: 2000}, EvidenceTenant: tenant}
		keys := map[int]risk.Key{}
		for _, version := range []int{0, 1, 1_000_000} {
			cfg.Accept.ScoreMap = &accept.ScoreMap{Version: version}
			keys[version] = EvidenceKeyOf(cfg, f)
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
