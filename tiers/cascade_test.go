package tiers

import (
	"fmt"
	"strings"
	"sync"
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

// Engines differ in what they tell of an answer while they write it. These tests are of those that tell less than vLLM.

// TestAStopStringBehindASeamLeavesTheUsageRight: the engine that carries on tells the ids of its chunks, of several tokens
// each, and no usage before the end, which a stop string keeps from coming.
func TestAStopStringBehindASeamLeavesTheUsageRight(t *testing.T) {
	for _, interval := range []int{1, 3} {
		r := probedRig(t, vllmsim.Options{Seed: 7}, vllmsim.Options{StreamInterval: interval, Without: []string{"running_usage"}})
		r.cfg.Accept.Threshold, r.cfg.HoldbackTokens = -15, 1
		seams, n := 0, sample(16, 40)
		for i, p := range prompts(n) {
			own := r.own(chat(p, `,"max_tokens":200`))
			at := len(own.text) * (60 + i%3*15) / 100
			for at > 0 && !isASCII(own.text[at:at+3]) {
				at--
			}
			body := chat(p, fmt.Sprintf(`,"max_tokens":200,"stop":[%q],"stream":true,"stream_options":{"include_usage":true}`, own.text[at:at+3]))
			want := r.own(strings.Replace(body, `"stream":true,"stream_options":{"include_usage":true}`, `"stream":false`, 1))
			if err := r.draft.SetFault(vllmsim.Fault{CleanEOFAfterTokens: 2 + want.usage.Completion/3, For: 1}); err != nil {
				t.Fatal(err)
			}
			got, rc, err := r.ask(openai.Chat, plan.Auto, body)
			if err != nil {
				t.Fatal(err)
			}
			if rc.Tier == plan.Mixed {
				seams++
			}
			// Where within its chunk the stop string ends is not told: all of it is counted.
			if off := got.usage.Completion - want.usage.Completion; got.text != want.text || off < 0 || off >= interval {
				t.Errorf("chunks of %d: %q told %+v, want %q, %+v; %s", interval, got.text, got.usage, want.text, want.usage, rc.Acceptance())
			}
		}
		if seams < n/2 {
			t.Errorf("%d seams: the test shows nothing", seams)
		}
	}
}

// weather offers two tools; one takes what its schema says, the other what no draft gives.
const weather = `,"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}}]`

func TestADraftThatCallsToolsIsTheAnswerIfItsCallsAreSound(t *testing.T) {
	r := newRig(t, 5, 0.05, true)
	r.cfg.Accept.Threshold = -20
	calls := 0
	for i, p := range prompts(24) {
		for _, stream := range []bool{false, true} {
			body := chat(p, fmt.Sprintf(`%s,"tool_choice":"required","max_tokens":300,"stream":%v`, weather, stream))
			req := scan(t, openai.Chat, body)
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
			said := string(out.writes[0])
			if !stream && (!strings.Contains(said, `"tool_calls":[{`) || !strings.Contains(said, `"name":"weather"`) || strings.Contains(said, `"logprobs":{`) || strings.Contains(said, `"token_ids":[`)) {
				t.Errorf("%s", said)
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

// TestStreamsSideBySideKeepTheirOwnText runs relayed and drafted streams at once, under the race detector in particular:
// windows, parsers and buffers of one go to the next, and none has text of another.
func TestStreamsSideBySideKeepTheirOwnText(t *testing.T) {
	r := newRig(t, 7, 0, true) // both models write the same
	r.cfg.Accept.Threshold = -15
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			body := chat(fmt.Sprint("stream ", i), `,"max_tokens":40,"stream":true`)
			want := r.own(body)
			for range 6 {
				got, _, err := r.ask(openai.Chat, [...]plan.Tier{plan.Target, plan.Auto}[i%2], body)
				if err != nil || got.text != want.text {
					t.Errorf("stream %d: %q, want %q; %v", i, got.text, want.text, err)
				}
			}
		})
	}
	group.Wait()
}

// own is what the target says to a request when it is asked alone.
func (r *rig) own(body string) reply {
	r.t.Helper()
	return direct(r.t, r.target.URL(), "/v1/chat/completions", strings.Replace(body, `"m"`, `"big"`, 1))
}

func TestScoresThatGoWrongAreNobodysTrouble(t *testing.T) {
	questions, want := prompts(sample(6, 12)), map[string]string{}
	for _, fault := range []string{"error", "hang", "short", "misaligned", "garbage", "die"} {
		t.Run(fault, func(t *testing.T) {
			r := probedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.3}, vllmsim.Options{Restart: 1})
			other := vllmsim.Start(t, vllmsim.Options{Model: "big", Profile: "h100-70b-tp4", Seed: 7, TimeScale: testScale})
			r.cfg.Mode = plan.ModeVerify
			for _, p := range questions {
				if want[p] == "" {
					want[p] = r.own(chat(p, `,"max_tokens":100`)).text
				}
			}
			r.wire(t, r.target.URL(), other.URL())
			for _, s := range []*vllmsim.Server{r.target, other} {
				if err := s.SetFault(vllmsim.Fault{Score: fault}); err != nil {
					t.Fatal(err)
				}
			}
			scored := 0
			for i, p := range questions {
				got, rc, err := r.ask(openai.Chat, plan.Auto, chat(p, fmt.Sprintf(`,"max_tokens":100,"stream":%v`, i%2 == 0)))
				if err != nil || got.text != want[p] {
					t.Fatalf("%q: %q, want %q; %+v, %v", p, got.text, want[p], rc, err)
				}
				for _, try := range rc.Tries {
					if try.Score {
						scored++
					}
				}
			}
			if open, why, _ := r.cascade.ScoringState("targets"); fault != "short" && (!open || scored > 4) {
				t.Errorf("%d scores were asked for; open %v: %s", scored, open, why)
			}
		})
	}
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
