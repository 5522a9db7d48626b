package plan

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
)

// able is the card of an engine that lacks nothing.
func able() *probe.Capabilities {
	return &probe.Capabilities{
		Tokenizer: "t", Template: "c", EOS: []int32{2}, TokenIDs: true,
		Scoring: openai.ScoreCompletions,
	}
}

// planned is the plan for a request, written "target:REASON", or the mode, how the target is
// asked, whether it is judged whole, and how it could be continued.
func planned(t *testing.T, cfg Config, f Facts, body string) string {
	t.Helper()
	lim := openai.DefaultLimits()
	lim.Allow = func(string) []string { return []string{"use_beam_search", "image_url"} }
	req, err := openai.Scan(openai.Chat, []byte(body), lim)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	f.Request, f.HasDraft, f.SameTokenizer = req, true, true
	p := Make(cfg, f)
	if p.Tier == Target {
		return "target:" + p.Reason
	}
	words := []string{cmp.Or(string(p.Rule), "never")}
	if p.Scorer != ScorerNone {
		words = append(words, string(p.Scorer))
	}
	if p.Whole {
		words = append(words, "whole")
	}
	words = append(words, [...]string{"afresh", "by text", "by ids"}[p.Resume])
	return strings.Join(words, ", ")
}

// The rules of what may be drafted, a row each, for greedy requests unless a row says otherwise.
func TestTheTableOfWhatMayBeDrafted(t *testing.T) {
	other := able()
	other.Tokenizer = "another"
	modes := []Config{{Mode: ModeConfidence, MidstreamFailover: true}, {Mode: ModeVerify, VerifyRule: RuleLenient}, {Mode: ModeVerify}}
	for _, row := range []struct {
		name  string
		more  string // fields of the request
		draft *probe.Capabilities
		cfg   func(*Config)
		want  [3]string // by mode
	}{
		{"plain stream", `,"stream":true`, able(), nil, [3]string{"never, by ids", "lenient, ids, whole, by ids", "exact, ids, whole, by ids"}},
		{"plain JSON answer", ``, able(), nil, [3]string{"never, whole, by ids", "lenient, ids, whole, by ids", "exact, ids, whole, by ids"}},
		{"images", `,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]`, able(), nil, [3]string{"target:prompt_kind", "target:prompt_kind", "target:prompt_kind"}},
		{"logprobs", `,"logprobs":true`, able(), nil, [3]string{"target:logprobs", "target:logprobs", "target:logprobs"}},
		{"beam search", `,"use_beam_search":true`, able(), nil, [3]string{"target:output_fields", "target:output_fields", "target:output_fields"}},
		{"several answers", `,"n":2,"temperature":1`, able(), nil, [3]string{"target:n", "target:n", "target:n"}},
		{"penalties", `,"frequency_penalty":1`, able(), nil, [3]string{"never, whole, afresh", "lenient, ids, whole, afresh", "target:penalties"}},
		{"penalties in a stream", `,"logit_bias":{"5":1},"stream":true`, able(), nil, [3]string{"target:penalties", "target:penalties", "target:penalties"}},
		{"a format", `,"response_format":{"type":"json_object"},"stream":true`, able(), nil, [3]string{"never, whole, afresh", "lenient, ids, whole, afresh", "exact, ids, whole, afresh"}},
		{"tools", `,"tools":[{"type":"function","function":{"name":"f"}}],"stream":true`, able(), nil, [3]string{"never, whole, afresh", "lenient, ids, whole, afresh", "exact, ids, whole, afresh"}},
		{"tools that are not to be called", `,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none","stream":true`, able(), nil, [3]string{"never, by ids", "lenient, ids, whole, by ids", "exact, ids, whole, by ids"}},
		{"a seed and chance", `,"seed":1,"temperature":1`, able(), nil, [3]string{"target:seed", "target:seed", "target:seed"}},
		{"a seed without chance", `,"seed":1`, able(), nil, [3]string{"never, whole, by ids", "lenient, ids, whole, by ids", "exact, ids, whole, by ids"}},
		{"chance", `,"temperature":0.7`, able(), nil, [3]string{"never, whole, by ids", "lenient, ids, whole, by ids", "target:sampled"}},
		{"a field that nobody knows", `,"typical_p":0.9,"stream":true`, able(), nil, [3]string{"never, by text", "lenient, ids, whole, by text", "exact, ids, whole, by text"}},
		{"another tokenizer", `,"stream":true`, other, nil, [3]string{"never, by text", "lenient, text, whole, by text", "exact, text, whole, by text"}},
		{"a long prompt", ``, able(), func(c *Config) { c.MaxPromptTokens = 1 }, [3]string{"target:prompt_length", "target:prompt_length", "target:prompt_length"}},
		{"nobody was probed", `,"stream":true`, nil, nil, [3]string{"never, by ids", "target:target_unprobed", "target:target_unprobed"}},
	} {
		for i, cfg := range modes {
			cfg.MaxPromptTokens = 1000
			if row.cfg != nil {
				row.cfg(&cfg)
			}
			f := Facts{Draft: row.draft}
			if row.draft != nil {
				f.Target = able()
			}
			body := `{"model":"m","messages":[{"role":"user","content":"Why is the sky blue?"}],"temperature":0` + row.more + `}`
			body = onlyLast(body)
			if got := planned(t, cfg, f, body); got != row.want[i] {
				t.Errorf("%s, mode %s %s: %s, want %s", row.name, cfg.Mode, cfg.VerifyRule, got, row.want[i])
			}
		}
	}
}

// onlyLast drops the fields of the usual request that a row names again.
func onlyLast(body string) string {
	if strings.Count(body, `"temperature"`) > 1 {
		body = strings.Replace(body, `,"temperature":0`, "", 1)
	}
	if strings.Count(body, `"messages"`) > 1 {
		body = strings.Replace(body, `"messages":[{"role":"user","content":"Why is the sky blue?"}],`, "", 1)
	}
	return body
}

func TestARequestMayOnlyAskForSomethingStricter(t *testing.T) {
	for _, c := range []Config{{Mode: ModeOff}, {Mode: ModeVerify}, {Mode: ModeVerify, VerifyRule: RuleLenient}, {Mode: ModeConfidence}} {
		if got := c.Stricter(Demand{Mode: DemandTarget}).Mode; got != ModeOff {
			t.Errorf("%s and target: %s", c.Mode, got)
		}
		got := c.Stricter(Demand{Mode: DemandExact})
		if c.Mode == ModeOff { // the target's own answer is exact already
			if got.Mode != ModeOff {
				t.Errorf("off and exact: %s", got.Mode)
			}
		} else if got.Mode != ModeVerify || got.VerifyRule != RuleExact {
			t.Errorf("%s and exact: %s by rule %s", c.Mode, got.Mode, got.VerifyRule)
		}
		if got := c.Stricter(Demand{Mode: DemandDefault}); got.Mode != c.Mode || got.VerifyRule != c.VerifyRule {
			t.Errorf("%s and default: %s by rule %s", c.Mode, got.Mode, got.VerifyRule)
		}
	}
}

func TestADraftIsServedWithoutTheTargetWhereTheModeNeedsNoWordOfIt(t *testing.T) {
	for mode, want := range map[Mode]bool{
		ModeOff: false, ModeVerify: false, ModeShadow: false, ModeConfidence: true, ModeRisk: true,
	} {
		cfg := Config{Mode: mode, Risk: Risk{Label: LabelLenient}}
		f := Facts{Request: &openai.Request{SinglePlain: true}, HasDraft: true, SameTokenizer: true, Draft: able(), Target: able()}
		if got := Make(cfg, f).MayServeUnchecked(); got != want {
			t.Errorf("mode %s: %t", mode, got)
		}
		f.Target = nil // never probed: nobody could audit
		if got := Make(cfg, f).MayServeUnchecked(); got != (mode == ModeConfidence) {
			t.Errorf("mode %s, target unprobed: %t", mode, got)
		}
		f.HasDraft = false
		if Make(cfg, f).MayServeUnchecked() {
			t.Errorf("mode %s without a draft pool", mode)
		}
	}
}

// planConfig is a config of mode confidence as it comes out of the box.
func planConfig() Config {
	return Config{
		MidstreamFailover: true, Mode: ModeConfidence,
		Accept:         accept.Config{},
		HoldbackTokens: 16, Holdback: time.Second, MaxPromptTokens: 100000,
		MaxRetries: 2, RetryBudget: 0.2,
		Timeouts: Timeouts{DraftFirstToken: 5 * time.Second, TargetFirstToken: 5 * time.Second, StreamIdle: 5 * time.Second, Total: time.Minute},
	}
}

// scan reads a request.
func scan(t *testing.T, kind openai.Kind, body string) *openai.Request {
	t.Helper()
	r, err := openai.Scan(kind, []byte(body), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return r
}
