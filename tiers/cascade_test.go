package tiers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

func chat(prompt, more string) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"temperature":0%s}`, prompt, more)
}

// prompts vary in length and difficulty.
func prompts(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("Question %d: tell me about item %d%s.", i, i*7919%1000, strings.Repeat(" and more", i%9)))
	}
	return out
}

func TestAModeThatTheEnginesDoNotAllowIsRefusedWithAReason(t *testing.T) {
	for _, c := range []struct {
		tokenizer, without string
		want               string // why not mode verify
	}{
		{"other", "tokenize", "tokenizers_differ"}, {"", "prompt_logprobs", "target_without_scoring"}, {"", "logprobs", ""}, {"", "", ""},
	} {
		r := probedRig(t, vllmsim.Options{Seed: 7, Tokenizer: c.tokenizer}, vllmsim.Options{Without: strings.Fields(c.without)})
		for _, s := range r.cascade.Modes(routeOf(r.cascade)) {
			if s.Mode == plan.ModeVerify && s.Missing != c.want || (s.Missing == "") != (s.Reason == "") {
				t.Errorf("%+v: mode %s lacks %q (%s)", c, s.Mode, s.Missing, s.Reason)
			}
		}
		r.cfg.Mode = plan.ModeVerify
		_, rc, err := r.ask(openai.Chat, plan.Auto, chat("Hello", `,"max_tokens":20`))
		if err != nil || rc.Decision.Judged != (c.want == "") || c.want != "" && (rc.Tier != plan.Target || rc.Reason() != c.want) {
			t.Errorf("%+v: from %s, %q, %v", c, rc.Tier, rc.Reason(), err)
		}
	}
}
