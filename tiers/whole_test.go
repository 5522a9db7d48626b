package tiers

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// weather offers two tools; one takes what its schema says, the other what no draft gives.
const weather = `,"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}}]`

func TestADraftThatCallsToolsIsTheAnswerIfItsCallsAreSound(t *testing.T) {
	r := newRig(t, 5, 0.05, true)
	r.cfg.Accept.Threshold = -20
	calls := 0
	for i, p := range prompts(24) {
		for _, stream := range []bool{false, true} {
			body := chat(p, fmt.Sprintf(`%s,"tool_choice":"required","max_tokens":300,"stream":%v`, weather, stream))
			req, err := openai.Scan(openai.Chat, []byte(body), openai.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			var out collector
			rc, err := answerBy(t.Context(), r.cascade, arrival{Body: req, ID: "x"}, &out)
			if err != nil {
				t.Fatalf("%d: %v", i, err)
			}
			if rc.Tier == plan.Draft && rc.Finish == "tool_calls" {
				calls++
			}
			if rc.Tier != plan.Draft && rc.Verdict.Accept {
				t.Errorf("%d: accepted, and from %s", i, rc.Tier)
			}
			if !stream {
				var a struct {
					Choices []struct {
						Message struct {
							Calls []struct {
								Function struct{ Name, Arguments string }
							} `json:"tool_calls"`
						}
						Logprobs any
						IDs      any `json:"token_ids"`
					}
				}
				if err := json.Unmarshal(out.writes[0], &a); err != nil || len(a.Choices) != 1 || len(a.Choices[0].Message.Calls) == 0 {
					t.Fatalf("%s, %v", out.writes[0], err)
				}
				if c := a.Choices[0]; c.Logprobs != nil || c.IDs != nil || c.Message.Calls[0].Function.Name != "weather" {
					t.Errorf("%s", out.writes[0])
				}
			}
		}
	}
	if calls < 10 {
		t.Errorf("%d answers were calls of the draft's: the test shows nothing", calls)
	}
}

func TestDraftsWithToolsAreScoredAsAWhole(t *testing.T) {
	r := probedRig(t, vllmsim.Options{Seed: 5, Divergence: 0.1}, vllmsim.Options{})
	r.cfg.Mode, r.cfg.VerifyRule = plan.ModeVerify, plan.RuleLenient
	seen := map[plan.Tier]int{}
	for _, p := range prompts(16) {
		_, rc, err := r.ask(openai.Chat, plan.Auto, chat(p, weather+`,"max_tokens":300,"stream":true`))
		if err != nil || rc.Tier == plan.Draft && (len(rc.Checks) != 1 || !rc.Checks[0].Pass) {
			t.Fatalf("%+v, %v", rc, err)
		}
		seen[rc.Tier]++
	}
	if seen[plan.Draft] == 0 {
		t.Errorf("answers by tier %v: the test shows nothing", seen)
	}
}
