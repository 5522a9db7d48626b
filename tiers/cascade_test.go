package tiers

import (
	"bytes"
	"encoding/json"
	"errors"
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

func TestADemandedTargetAnswersWordForWordAsItselfWould(t *testing.T) {
	for seed := range uint64(sample(4, 16)) {
		r := newRig(t, seed, 0.5, true)
		for i, p := range prompts(6) {
			more := fmt.Sprintf(`,"max_tokens":%d,"stream":%v`, 40+i*10, i%2 == 0)
			got, rc, err := r.ask(openai.Chat, plan.Target, chat(p, more))
			if err != nil {
				t.Fatal(err)
			}
			want := direct(t, r.target.URL(), "/v1/chat/completions", strings.Replace(chat(p, more), `"m"`, `"big"`, 1))
			if got.text != want.text || got.finish != want.finish {
				t.Fatalf("seed %d: %q\ngot  %q %s\nwant %q %s", seed, p, got.text, got.finish, want.text, want.finish)
			}
			if got.foregate.Tier != "target" || rc.Acceptance() != "bypassed;reason=demanded" {
				t.Errorf("told %+v, %s", got.foregate, rc.Acceptance())
			}
		}
	}
}

// TestTheAcceptedPrefixAndItsContinuationAreWhatWasStreamed drives many answers
// through the cascade with thresholds that reject some of them early, some late
// and some never, and recomputes each from its parts: the draft model's own
// tokens up to the seam, then what the target itself makes of exactly those ids.
func TestTheAcceptedPrefixAndItsContinuationAreWhatWasStreamed(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	tiers := map[string]int{}
	for seed := range uint64(12) {
		r := newRig(t, seed, 1, true)
		for i, p := range prompts(15) {
			r.breakOff(i)
			body := chat(p, fmt.Sprintf(`,"stream":%v,"max_tokens":%d,"stream_options":{"include_usage":true}`, i%3 > 0, 30+i*9))
			if i%3 == 0 {
				body = chat(p, fmt.Sprintf(`,"max_tokens":%d`, 30+i*9))
			}
			got, rc, err := r.ask(openai.Chat, plan.Auto, body)
			if err != nil {
				t.Fatal(err)
			}
			tiers[got.foregate.Tier]++
			r.checkParts(p, 30+i*9, got, rc)
		}
	}
	t.Logf("answers by tier: %v", tiers)
	for _, tier := range []string{"draft", "target", "mixed"} {
		if tiers[tier] < 5 {
			t.Errorf("only %d answers came from %s: the test shows nothing of it", tiers[tier], tier)
		}
	}
}

// breakOff has the next draft end somewhere in the middle, so that the target continues it; every fifth comes whole.
func (r *rig) breakOff(i int) {
	r.t.Helper()
	r.cfg.Accept.Threshold = -20
	if err := r.draft.SetFault(vllmsim.Fault{CleanEOFAfterTokens: [...]int{12, 24, 40, 70, 0}[i%5], For: 1}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) checkParts(prompt string, limit int, got reply, rc *Receipt) {
	r.t.Helper()
	draft := direct(r.t, r.draft.URL(), "/v1/chat/completions",
		strings.Replace(chat(prompt, fmt.Sprintf(`,"max_tokens":%d,"return_token_ids":true`, limit)), `"m"`, `"small"`, 1))
	want, finish, completion := draft.text, draft.finish, len(draft.ids)
	if got.foregate.Tier != "draft" {
		ids := append(bytes.Clone(nil), '[')
		accepted := draft.ids[:got.foregate.Accepted]
		for i, id := range append(append([]int32{}, draft.promptIDs...), accepted...) {
			if i > 0 {
				ids = append(ids, ',')
			}
			ids = fmt.Append(ids, id)
		}
		ids = append(ids, ']')
		rest := direct(r.t, r.target.URL(), "/v1/completions",
			fmt.Sprintf(`{"model":"big","prompt":%s,"max_tokens":%d,"temperature":0,"return_token_ids":true}`, ids, limit-len(accepted)))
		want = r.textOf(accepted) + rest.text
		finish, completion = rest.finish, len(accepted)+len(rest.ids)
	}
	if got.text != want {
		r.t.Fatalf("%q (%+v)\ngot  %q\nwant %q", prompt, got.foregate, got.text, want)
	}
	if got.finish != finish || (got.usage.Completion != completion && got.usage.Prompt > 0) {
		r.t.Fatalf("%q (%+v): finish %s, %d tokens; want %s, %d", prompt, got.foregate, got.finish, got.usage.Completion, finish, completion)
	}
	if got.usage.Prompt > 0 && got.usage.Prompt != len(draft.promptIDs) {
		r.t.Fatalf("%q: %d prompt tokens, want %d", prompt, got.usage.Prompt, len(draft.promptIDs))
	}
	if rc.Finish != got.finish || string(rc.Tier) != got.foregate.Tier {
		r.t.Errorf("receipt says %s %s, the client %s %s", rc.Finish, rc.Tier, got.finish, got.foregate.Tier)
	}
}

func (r *rig) textOf(ids []int32) string {
	if len(ids) == 0 {
		return ""
	}
	raw, err := json.Marshal(map[string]any{"model": "small", "tokens": ids})
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.Post(r.draft.URL()+"/detokenize", "application/json", bytes.NewReader(raw))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var out struct{ Prompt string }
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		r.t.Fatal(err)
	}
	return out.Prompt
}

func TestPoolsWithoutACommonTokenizerContinueByText(t *testing.T) {
	r := newRig(t, 1, 1, false)
	mixed, n := 0, sample(40, 80)
	for i, p := range prompts(n) {
		r.breakOff(i)
		got, _, err := r.ask(openai.Chat, plan.Auto, chat(p, fmt.Sprintf(`,"max_tokens":200,"stream":%v`, i%3 > 0)))
		if err != nil {
			t.Fatal(err)
		}
		if got.foregate.Tier != "mixed" {
			continue
		}
		mixed++
		draft := direct(t, r.draft.URL(), "/v1/chat/completions", strings.Replace(chat(p, `,"max_tokens":200`), `"m"`, `"small"`, 1))
		common := 0
		for common < len(got.text) && common < len(draft.text) && got.text[common] == draft.text[common] {
			common++
		}
		if common == 0 || got.finish == "" {
			t.Errorf("%q: nothing of the draft in %q", p, got.text)
		}
		// The continuation of exactly the shared words is what the target adds.
		prefix := sharedPrefix(t, r, p, got.text)
		if prefix == "" {
			t.Errorf("%q: no prefix of %q continues to it on the target", p, got.text)
		}
	}
	if mixed < n/16 {
		t.Errorf("only %d mixed answers: the test shows nothing", mixed)
	}
}

// sharedPrefix finds the words after which the target itself continues to text.
func sharedPrefix(t *testing.T, r *rig, prompt, text string) string {
	t.Helper()
	for i := len(text); i > 0; i-- {
		if i < len(text) && text[i] != ' ' && text[i] != '\n' {
			continue
		}
		head := text[:i]
		req := fmt.Sprintf(`{"model":"big","messages":[{"role":"user","content":%q},{"role":"assistant","content":%q}],"temperature":0,"max_tokens":200,`+
			`"add_generation_prompt":false,"continue_final_message":true}`, prompt, head)
		if rest := direct(t, r.target.URL(), "/v1/chat/completions", req); strings.HasPrefix(head+rest.text, text) || strings.HasPrefix(text, head+rest.text) && len(rest.text) > 0 {
			return head
		}
	}
	return ""
}

func TestARejectedDraftIsAbortedUpstream(t *testing.T) {
	r := newRig(t, 2, 0.6, true)
	r.cfg.Accept.Threshold = 19 // nothing passes
	if _, rc, err := r.ask(openai.Chat, plan.Auto, chat("Tell me a long story.", `,"max_tokens":4000,"ignore_eos":true`)); err != nil {
		t.Fatal(err)
	} else if rc.Tier != plan.Target || rc.Verdict.Accept {
		t.Errorf("receipt %+v", rc)
	}
	eventually(t, "the abort of the draft", func() bool {
		s := r.draft.State()
		return s.Running == 0 && s.Waiting == 0 && s.Aborted == 1
	})
	if s := r.draft.State(); s.Finished != 0 {
		t.Errorf("the draft ran to its end of %d tokens", s.GeneratedTokens)
	}
}

func TestAClientThatLeavesStopsTheBackend(t *testing.T) {
	r := newRig(t, 3, 0, true)
	req, err := openai.Scan(openai.Chat, []byte(chat("Go on for ever.", `,"stream":true,"ignore_eos":true,"max_tokens":100000`)), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("client gone")
	out := &failingSink{after: 3, err: gone}
	if _, err := answerBy(t.Context(), r.cascade, arrival{Body: req, ID: "x"}, out); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	eventually(t, "the abort", func() bool { return r.draft.State().Running == 0 })
}

// failingSink is a client that leaves after some writes.
type failingSink struct {
	after int
	err   error
}

func (s *failingSink) Begin(ResponseHead) error { return nil }

func (s *failingSink) Write([]byte) error {
	if s.after--; s.after < 0 {
		return s.err
	}
	return nil
}

func TestStopStringsEndAnAnswerWhereverTheyFall(t *testing.T) {
	r := newRig(t, 5, 1, true)
	tiers := map[string]int{}
	for i, p := range prompts(sample(12, 24)) {
		for _, stream := range []bool{true, false} {
			more := fmt.Sprintf(`,"max_tokens":120,"stream":%v`, stream)
			r.breakOff(i)
			plain, _, err := r.ask(openai.Chat, plan.Auto, chat(p, more))
			if err != nil {
				t.Fatal(err)
			}
			stop := stopInside(plain.text, 1+i%3)
			if stop == "" {
				continue
			}
			for _, include := range []bool{true, false} {
				want := plain.text[:strings.Index(plain.text, stop)]
				if include {
					want += stop
				}
				r.breakOff(i)
				got, _, err := r.ask(openai.Chat, plan.Auto, chat(p, more+fmt.Sprintf(`,"stop":[%q,"never to be seen"],"include_stop_str_in_output":%v`, stop, include)))
				if err != nil {
					t.Fatal(err)
				}
				tiers[got.foregate.Tier]++
				if got.text != want || got.finish != "stop" || got.stop != string(openai.Quote(stop)) {
					t.Fatalf("stop %q, stream %v, include %v, %+v:\ngot  %q %s %s\nwant %q", stop, stream, include, got.foregate, got.text, got.finish, got.stop, want)
				}
			}
		}
	}
	t.Logf("answers by tier: %v", tiers)
	if tiers["mixed"] == 0 || tiers["draft"] == 0 {
		t.Error("no stop string fell behind a seam, or none before one: the test shows too little")
	}
}

// stopInside is a stop string that straddles tokens, from the given quarter of
// the answer itself; "" for an answer too short for one.
func stopInside(text string, quarter int) string {
	const length = 7
	for at := len(text) * quarter / 4; at+length < len(text); at++ {
		if isASCII(text[at : at+length]) {
			return text[at : at+length]
		}
	}
	return ""
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func TestADownTargetStillServesAcceptedDrafts(t *testing.T) {
	r := newRig(t, 1, 0, true)
	if err := r.target.Close(); err != nil {
		t.Fatal(err)
	}
	r.cfg.Accept.Threshold = -15
	got, rc, err := r.ask(openai.Chat, plan.Auto, chat("Hello", `,"max_tokens":20`))
	if err != nil || rc.Tier != plan.Draft || got.text == "" {
		t.Errorf("%v, tier %s, %q", err, rc.Tier, got.text)
	}
	if _, _, err := r.ask(openai.Chat, plan.Target, chat("Hello", "")); err == nil {
		t.Error("a demanded target answered from nowhere")
	}
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
