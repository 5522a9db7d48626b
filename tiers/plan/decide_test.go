package plan

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/risk"
)

// priceA are the prices of a cheap draft pool before a dear target, in USD per token.
var priceA = economy.Prices{DraftPrefill: 0.143e-6, DraftDecode: 0.200e-6, TargetPrefill: 0.341e-6, TargetDecode: 1.470e-6}

// never and mostly are what is known of drafts that never hold, and that mostly do.
var (
	never  = economy.Expectation{Samples: 200, Acceptance: 0.001, UpperBound: 0.01, Output: 300, Holdback: 60}
	mostly = economy.Expectation{Samples: 200, Acceptance: 0.7, UpperBound: 0.75, Output: 300, Holdback: 40}
)

// situation is what a request meets; the zero value is a plain stream at temperature 0 in mode confidence, which is drafted.
type situation struct {
	more   string // members of the request
	config func(*Config)
	facts  func(*Facts)
	inputs func(*Inputs)
}

func (s situation) decide(t *testing.T) Decision {
	t.Helper()
	lim := openai.DefaultLimits()
	lim.Allow = func(string) []string { return []string{"use_beam_search", "image_url"} }
	stream := `"stream":true,`
	if strings.Contains(s.more, `"stream"`) {
		stream = ""
	}
	r, err := openai.Scan(openai.Chat, []byte(onlyLast(`{`+stream+`"model":"m","messages":[{"role":"user","content":"Why is the sky blue?"}],"temperature":0`+s.more+`}`)), lim)
	if err != nil {
		t.Fatal(err)
	}
	cfg := planConfig()
	if s.config != nil {
		s.config(&cfg)
	}
	f := Facts{Request: r, HasDraft: true, SameTokenizer: true, Draft: able(), Target: able()}
	if s.facts != nil {
		s.facts(&f)
	}
	in := Inputs{Plan: Make(cfg, f), Config: &cfg, Request: r, Views: &Views{}, Explore: 0.5, Draw: 1}
	if s.inputs != nil {
		s.inputs(&in)
	}
	return Decide(&in)
}

// lacking is a card without a capability.
func lacking(names ...string) *probe.Capabilities {
	c := able()
	for _, name := range names {
		c.Missing = append(c.Missing, probe.MissingCapability{Name: name, Reason: "so it is"})
	}
	return c
}

// reasons has a row for each reason of "X-Acceptance: bypassed;reason=…" that is decided; "" is a request that is drafted.
var reasons = map[string]situation{
	"":                {},
	"demanded":        {facts: func(f *Facts) { f.Demanded = Target }},
	"no_draft_pool":   {facts: func(f *Facts) { f.HasDraft = false }},
	"mode_off":        {config: func(c *Config) { *c = c.Stricter(Demand{Mode: DemandTarget}) }},
	"application_off": {config: func(c *Config) { *c = c.Of(Application{Mode: ModeOff}) }},
	"low_agreement": {config: func(c *Config) { c.Mode, c.Economy = ModeRisk, economy.Policy{Enabled: true} }, inputs: func(in *Inputs) {
		in.Prices, in.Expected, in.Views.Own.Op, in.Views.Own.Share, in.Views.Own.Refused = priceA, mostly, 1, .9, .99
	}},
	"draft_without_logprobs": {facts: func(f *Facts) { f.Draft.Unscored = true }},
	"draft_unprobed":         {config: func(c *Config) { c.Mode = ModeRisk }, facts: func(f *Facts) { f.Draft = nil }},
	"target_unprobed":        {config: func(c *Config) { c.Mode = ModeVerify }, facts: func(f *Facts) { f.Target = nil }},
	"target_without_scoring": {config: func(c *Config) { c.Mode = ModeVerify }, facts: func(f *Facts) { f.Target.Scoring = "" }},
	"target_without_judge": {
		config: func(c *Config) { c.Mode, c.Risk.Label = ModeRisk, LabelJudge }, facts: func(f *Facts) { f.Target = lacking(probe.MissingJudge) },
	},
	"tokenizers_differ": {config: func(c *Config) { c.Mode = ModeVerify }, facts: func(f *Facts) {
		f.Target = lacking(probe.MissingTokenize)
		f.Target.Tokenizer = "another"
	}},
	"tools": {more: `,"tools":[{"type":"function","function":{"name":"f"}}]`, config: func(c *Config) { c.Mode = ModeVerify }, facts: func(f *Facts) {
		f.Target.Tokenizer = "another"
	}},
	"prompt_kind":   {more: `,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]`},
	"logprobs":      {more: `,"logprobs":true`},
	"n":             {more: `,"n":2`},
	"continues":     {more: `,"continue_final_message":true,"add_generation_prompt":false,"messages":[{"role":"user","content":"Why?"},{"role":"assistant","content":"So"}]`},
	"seed":          {more: `,"seed":1,"temperature":1`},
	"penalties":     {more: `,"frequency_penalty":1`},
	"sampled":       {more: `,"temperature":0.7`, config: func(c *Config) { *c = c.Stricter(Demand{Mode: DemandExact}) }},
	"min_tokens":    {more: `,"min_tokens":5,"stop":["x"],"stream":false`},
	"output_fields": {more: `,"use_beam_search":true`},
	"prompt_length": {config: func(c *Config) { c.MaxPromptTokens = 1 }},
	"no_saving": {config: func(c *Config) { c.Economy = economy.Policy{Enabled: true, ExploreRate: 0.02} }, inputs: func(in *Inputs) {
		in.Prices, in.Expected = priceA, never
	}},
	"target_has_room": {config: func(c *Config) { c.When = WhenScarce }},
	"rejected_before": {inputs: func(in *Inputs) { in.Rejected = true }},
	"shadow":          {config: func(c *Config) { c.Mode = ModeShadow }},
	"uncertified":     {config: func(c *Config) { c.Mode = ModeRisk }},
	"infeasible":      {config: func(c *Config) { c.Mode = ModeRisk }, inputs: func(in *Inputs) { in.Views.Own.Infeasible = true }},
}

func TestEachReasonHasASituationThatIsDecidedByIt(t *testing.T) {
	for reason, s := range reasons {
		d := s.decide(t)
		if d.Reason != reason || d.Judged != (reason == "") {
			t.Errorf("%q: decided by %q, judged %t", reason, d.Reason, d.Judged)
		}
		want := []Step{{Target, Relay}}
		if reason == "" {
			want = []Step{{Draft, Speculate}, {Target, Relay}}
		}
		if !slices.Equal(d.Steps, want) {
			t.Errorf("%q: steps %v, want %v", reason, d.Steps, want)
		}
	}
}

// TestTheDocumentedReasonsAreThoseThatAreDecided reads them from the guide. Three are of requests about which nothing is
// decided, and draft_full is an outcome.
func TestTheDocumentedReasonsAreThoseThatAreDecided(t *testing.T) {
	text, err := os.ReadFile("../../docs/guides/choosing-a-mode.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Why a request was not drafted")
	documented := map[string]bool{}
	for _, row := range strings.Split(table, "\n| ")[1:] {
		cells := strings.Split(row, "|")
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[0], -1) {
			documented[m[1]] = true
		}
	}
	for _, of := range []string{"fallback", "count_tokens", "passthrough", "draft_full"} {
		if !documented[of] {
			t.Errorf("%s is not documented", of)
		}
		delete(documented, of)
	}
	for reason := range documented {
		if _, ok := reasons[reason]; !ok {
			t.Errorf("%s is documented and never decided", reason)
		}
	}
	for reason := range reasons {
		if !documented[reason] && reason != "" {
			t.Errorf("%s is not documented", reason)
		}
	}
}

func TestTheStepsAreThoseOfThePlan(t *testing.T) {
	for name, c := range map[string]struct {
		situation
		want []Step
	}{
		"a draft is demanded":    {situation{facts: func(f *Facts) { f.Demanded = Draft }}, []Step{{Draft, Relay}}},
		"an answer in one piece": {situation{more: `,"stream":false`}, []Step{{Draft, Hold}, {Target, Relay}}},
		"verify":                 {situation{config: func(c *Config) { c.Mode = ModeVerify }}, []Step{{Draft, Hold}, {Target, Relay}}},
		"tools":                  {situation{more: `,"tools":[{"type":"function","function":{"name":"f"}}]`}, []Step{{Draft, InOnePiece}, {Target, Relay}}},
	} {
		if d := c.decide(t); !slices.Equal(d.Steps, c.want) {
			t.Errorf("%s: %v, want %v", name, d.Steps, c.want)
		}
	}
}

func TestAWarmupDraftsNoApplicationThatIsRefuted(t *testing.T) {
	for _, refuted := range []bool{false, true} {
		d := situation{config: func(c *Config) {
			c.Mode, c.Risk.Warmup, c.Risk.WarmupDuration, c.Risk.MaxConcurrentAudits, c.Risk.MaxStaleness = ModeRisk, true, time.Hour, 1, time.Hour
		}, inputs: func(in *Inputs) {
			in.Views.Now = time.Unix(1000, 0)
			in.Views.Own = risk.View{Warmup: risk.Warmup{Began: 900, Audits: 20}, Seen: in.Views.Now, Cautious: .5, Refuted: refuted}
		}}.decide(t)
		if d.IsWarmup() == refuted || d.Judged == refuted || refuted && d.Reason != reasonInfeasible {
			t.Errorf("refuted %t: %+v", refuted, d.Plan)
		}
	}
}

func TestADraftIsWeighed(t *testing.T) {
	guard := func(c *Config) {
		c.Economy, c.HoldbackTokens = economy.Policy{Enabled: true, ExploreRate: 0.02}, 32
		c.Accept = accept.Config{Threshold: 0.2, ScoreMap: &accept.ScoreMap{Version: 3}}
	}
	for name, c := range map[string]struct {
		prices   economy.Prices
		expected economy.Expectation
		explore  float64
		reason   string
	}{
		"it never holds":           {priceA, never, 0.5, economy.ReasonNoSaving},
		"the dice say explore":     {priceA, never, 0.01, ""},
		"the prices are not known": {economy.Prices{}, never, 0.5, ""},
		"it mostly holds":          {priceA, mostly, 0.5, ""},
	} {
		d := situation{config: guard, inputs: func(in *Inputs) { in.Prices, in.Expected, in.Explore = c.prices, c.expected, c.explore }}.decide(t)
		if d.Reason != c.reason || d.Judged != (c.reason == "") || d.Checked || d.Audit != nil {
			t.Errorf("%s: %+v", name, d)
		}
		if (d.Estimate.SavingUSD() > 0) != (name == "it mostly holds") || d.Estimate.Explored != (name == "the dice say explore") {
			t.Errorf("%s: %+v", name, d.Estimate)
		}
		if d.Accept != (accept.Config{Threshold: 0.2}) {
			t.Errorf("%s: judged by %+v, and the fitted score is of the audited modes", name, d.Accept)
		}
	}
}

func TestAStreamIsHeldWhereNobodyTakesOver(t *testing.T) {
	for _, failover := range []bool{true, false} {
		d := situation{config: func(c *Config) { c.MidstreamFailover = failover }}.decide(t)
		if d.Whole == failover || d.Steps[0].Way == Speculate != failover {
			t.Errorf("failover %t: %+v", failover, d)
		}
	}
}

func TestWhatTheGuardOrScarcityKeepsFromItsDraftIsNoPartOfTheMixThatIsServed(t *testing.T) {
	for reason, kept := range map[string]bool{
		economy.ReasonNoSaving: true, reasonLowAgreement: true, reasonSpare: true,
		"": false, ReasonUncertified: false, reasonInfeasible: false, reasonShadow: false,
	} {
		if d := (Decision{Plan: Plan{Reason: reason}}); d.IsKeptFromDraft() != kept {
			t.Errorf("%q: %v", reason, !kept)
		}
	}
}
