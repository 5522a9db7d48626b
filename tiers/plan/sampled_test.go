package plan

import (
	"testing"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/scoring"
)

// sampledCards are cards of engines that allow rejection sampling.
func sampledCards() (draft, target *probe.Capabilities) {
	draft, target = able(), able()
	target.RawLogprobs, target.Processed, target.Plain, target.ScoreTop = false, true, true, 20
	return draft, target
}

func TestWhatCannotBeVerifiedExactlyGoesToTheTargetWithItsReason(t *testing.T) {
	const sampled = `{"model":"m","messages":[{"role":"user","content":"x"}]`
	for _, row := range []struct {
		name, more string
		change     func(cfg *Config, draft, target *probe.Capabilities)
		want       string
	}{
		{"all there", ``, nil, "exact, ids, whole, by ids"},
		{"a stream with a limit and stop strings", `,"stream":true,"temperature":0.7,"top_p":0.9,"max_tokens":10,"stop":["x"],"top_k":40`, nil, "exact, ids, whole, by ids"},
		{"not asked for", ``, func(c *Config, _, _ *probe.Capabilities) { c.VerifySampled = false }, "target:sampled"},
		{"greedy without it", `,"temperature":0`, func(c *Config, _, _ *probe.Capabilities) { c.VerifySampled = false }, "exact, ids, whole, by ids"},
		{"a seed", `,"seed":1`, nil, "target:seed"},
		{"penalties", `,"presence_penalty":1`, nil, "target:penalties"},
		{"a bias", `,"logit_bias":{"1":2}`, nil, "target:penalties"},
		{"min_tokens", `,"min_tokens":2`, nil, "target:penalties"},
		{"a grammar", `,"response_format":{"type":"json_object"}`, nil, "target:structured"},
		{"tools", `,"tools":[{"type":"function","function":{"name":"f"}}]`, nil, "target:tools"},
		{"several answers", `,"n":2`, nil, "target:n"},
		{"logprobs", `,"logprobs":true`, nil, "target:logprobs"},
		{"ends of its own", `,"stop_token_ids":[5]`, nil, "target:sampled_fields"},
		{"min_p", `,"min_p":0.1`, nil, "target:sampled_fields"},
		{"special tokens shown", `,"skip_special_tokens":false`, nil, "target:sampled_fields"},
		{"colder than engines sample", `,"temperature":0.001`, nil, "target:sampled_temperature"},
		{"no top_p at all", `,"top_p":0`, nil, "target:sampled_temperature"},
		{"half a top_k", `,"top_k":1.5`, nil, "target:sampled_temperature"},
		{"a long prompt", ``, func(c *Config, _, _ *probe.Capabilities) { c.MaxPromptTokens = 0 }, "target:prompt_length"},
		{"nothing is scored", ``, func(c *Config, _, _ *probe.Capabilities) { c.Scoring.MaxTokens = 0 }, "target:sampled_score_tokens"},
		{"another tokenizer", ``, func(_ *Config, d, _ *probe.Capabilities) { d.Tokenizer = "u" }, "target:tokenizers_differ"},
		{"an unknown template", ``, func(_ *Config, d, _ *probe.Capabilities) { d.Template = "" }, "target:tokenizers_differ"},
		{"no scores", ``, func(_ *Config, _, c *probe.Capabilities) { c.Scoring = "" }, "target:target_without_scoring"},
		{"SGLang", ``, func(_ *Config, _, c *probe.Capabilities) { c.Scoring = openai.ScoreSGLang }, "target:sampled_scores"},
		{"few alternatives in scores", ``, func(_ *Config, _, c *probe.Capabilities) { c.ScoreTop = 5 }, "target:sampled_scores"},
		{"few alternatives of the draft", ``, func(_ *Config, d, _ *probe.Capabilities) { d.TopLogprobs = 5 }, "target:sampled_draft_logprobs"},
		{"processed ones of the draft", ``, func(_ *Config, d, _ *probe.Capabilities) { d.RawLogprobs = false }, "target:sampled_draft_logprobs"},
		{"no continuation", ``, func(_ *Config, _, c *probe.Capabilities) {
			c.Missing = []probe.MissingCapability{{Name: probe.MissingContinue, Reason: "x"}}
		}, "target:sampled_continuation"},
		{"unknown ends", ``, func(_ *Config, _, c *probe.Capabilities) { c.EOS = nil }, "target:sampled_ends"},
		{"another end of the draft", ``, func(_ *Config, d, _ *probe.Capabilities) { d.EOS = []int32{2, 9} }, "target:sampled_ends"},
		{"raw logprobs of the target", ``, func(_ *Config, _, c *probe.Capabilities) { c.RawLogprobs, c.Processed = true, false }, "target:sampled_raw_target"},
		{"defaults of the target", ``, func(_ *Config, _, c *probe.Capabilities) { c.Plain = false }, "target:sampled_defaults"},
	} {
		cfg := Config{Mode: ModeVerify, VerifySampled: true, MaxPromptTokens: 100, Scoring: scoring.Config{MaxTokens: 8192, MaxConcurrent: 1}}
		draft, target := sampledCards()
		if row.change != nil {
			row.change(&cfg, draft, target)
		}
		if got := planned(t, cfg, Facts{Draft: draft, Target: target}, sampled+row.more+"}"); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
	for name, f := range map[string]Facts{"target_unprobed": {Draft: able()}, "draft_unprobed": {Target: able()}} {
		cfg := Config{Mode: ModeVerify, VerifySampled: true, MaxPromptTokens: 100, Scoring: scoring.Config{MaxTokens: 8192, MaxConcurrent: 1}}
		if got := planned(t, cfg, f, sampled+"}"); got != "target:"+name {
			t.Errorf("%s, want target:%s", got, name)
		}
	}
}
