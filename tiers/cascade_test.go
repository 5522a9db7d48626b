package tiers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
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

// breakOff has the next draft end somewhere in the middle, so that the target continues it; every fifth comes whole.
func (r *rig) breakOff(i int) {
	r.t.Helper()
	r.cfg.Accept.Threshold = -20
	if err := r.draft.SetFault(vllmsim.Fault{CleanEOFAfterTokens: [...]int{12, 24, 40, 70, 0}[i%5], For: 1}); err != nil {
		r.t.Fatal(err)
	}
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func TestADraftThatQueuesLongerThanTheHoldBackIsStillJudged(t *testing.T) {
	r := newRig(t, 1, 0, true)
	r.cfg.Holdback = 0 // over before the role chunk comes
	r.cfg.Accept.Threshold = -15
	got, rc, err := r.ask(openai.Chat, plan.Auto, chat("Hello", `,"max_tokens":20,"stream":true`))
	if err != nil || rc.Tier != plan.Draft || !rc.Verdict.Accept || got.text == "" {
		t.Errorf("%v, %s from %s: %q", err, rc.Acceptance(), rc.Tier, got.text)
	}
}

// TestAnAnswerWithItsUsageSoFarMayBeADraft asks for the usage in every chunk (continuous_usage_stats), as benchmarks do.
func TestAnAnswerWithItsUsageSoFarMayBeADraft(t *testing.T) {
	tiers := map[string]int{}
	for seed := range uint64(3) {
		r := newRig(t, seed, 1, true)
		for i, p := range prompts(8) {
			r.breakOff(i)
			body, err := openai.Scan(openai.Chat, []byte(chat(p, `,"max_tokens":60,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`)), openai.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			var out collector
			rc, err := answerBy(t.Context(), r.cascade, arrival{Body: body, Tier: plan.Auto, ID: "test", Header: http.Header{}}, &out)
			if err != nil {
				t.Fatal(err)
			}
			tiers[string(rc.Tier)]++
			prompt, made := 0, 0
			for line := range strings.Lines(string(bytes.Join(out.writes, nil))) {
				data, ok := strings.CutPrefix(line, "data: {")
				if !ok {
					continue
				}
				var c struct {
					Choices []struct {
						Finish *string `json:"finish_reason"`
					}
					Usage *struct {
						Prompt     int `json:"prompt_tokens"`
						Completion int `json:"completion_tokens"`
					}
				}
				if err := json.Unmarshal([]byte("{"+data), &c); err != nil {
					t.Fatal(err)
				}
				switch {
				case c.Usage == nil && (len(c.Choices) == 0 || c.Choices[0].Finish == nil):
					t.Fatalf("seed %d, %s: no usage in %s", seed, rc.Tier, data)
				case c.Usage == nil:
				case c.Usage.Completion < made || prompt > 0 && c.Usage.Prompt != prompt:
					t.Fatalf("seed %d, %s: %+v after %d of %d in %s", seed, rc.Tier, *c.Usage, made, prompt, data)
				default:
					prompt, made = c.Usage.Prompt, c.Usage.Completion
				}
			}
			if made != rc.AcceptedTokens+rc.TargetTokens || made == 0 {
				t.Errorf("seed %d, %s: the last chunk tells %d tokens, the receipt %d", seed, rc.Tier, made, rc.AcceptedTokens+rc.TargetTokens)
			}
		}
	}
	if tiers["draft"] == 0 || tiers["mixed"] == 0 || tiers["target"] == 0 {
		t.Errorf("the test shows nothing of a tier: %v", tiers)
	}
}
