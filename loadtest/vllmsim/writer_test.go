package vllmsim

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// writing is a chat answer with its ids and logprobs.
type writing struct {
	PromptTokenIDs []int32 `json:"prompt_token_ids"`
	Choices        []struct {
		Message      struct{ Content string }
		TokenIDs     []int32 `json:"token_ids"`
		FinishReason string  `json:"finish_reason"`
		Logprobs     struct{ Content []struct{ Logprob float64 } }
	}
}

func written(t *testing.T, s *Server, body string) (a writing) {
	t.Helper()
	_, text := post(t, s, "/v1/chat/completions", body)
	if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Choices) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	return a
}

// A lab in virtual time must see the very tokens that a server would have sent.
func TestAWriterWritesWhatAServerWouldHaveAnswered(t *testing.T) {
	s := Start(t, Options{Seed: 6, Divergence: 0.3, Blind: 0.5, TimeScale: fast})
	m := NewDraft(6, 0.3, 0.5)
	for i, c := range []struct {
		body string
		how  Sampling
	}{
		{`"temperature":0,"max_tokens":4000`, Sampling{MaxTokens: 4000}},
		{`"temperature":0.7,"max_tokens":4000`, Sampling{Temperature: 0.7, MaxTokens: 4000}},
		{`"max_tokens":60`, Sampling{Temperature: 1, MaxTokens: 60}},
		{`"temperature":1.3,"max_tokens":500,"ignore_eos":true`,
			Sampling{Temperature: 1.3, MaxTokens: 500, IgnoreEOS: true}},
	} {
		question := fmt.Sprintf(" Who wrote %d? ", i) // white space at the ends goes
		a := written(t, s, `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":`+
			string(encode(question))+`}],"return_token_ids":true,"logprobs":true,"top_logprobs":3,`+c.body+`}`)
		prompt := DefaultTokenizer().Chat([]Message{{"system", "Be brief."}, {"user", question}})
		expect(t, "prompt", prompt, a.PromptTokenIDs)
		c.how.Seed = m.SampleSeed("sim", prompt, 0)
		w := NewWriter(m, prompt, c.how)
		var ids []int32
		var text strings.Builder
		var lps, theirs []float64
		for done := false; !done; {
			var id int32
			id, done = w.Next()
			ids, lps = append(ids, id), append(lps, w.Logprob())
			text.WriteString(w.Text())
			if top := w.Top(nil, 3); len(top) != 3 || !slices.IsSortedFunc(top, func(a, b float64) int { return -int(math.Copysign(1, a-b)) }) || top[0] < w.Logprob() {
				t.Fatalf("the three best are %v, the token has %v", top, w.Logprob())
			}
		}
		ch := &a.Choices[0]
		expect(t, "ids", ids, ch.TokenIDs)
		expect(t, "text", text.String(), ch.Message.Content)
		expect(t, "finish", w.Finish(), ch.FinishReason)
		for _, lp := range ch.Logprobs.Content {
			theirs = append(theirs, lp.Logprob)
		}
		expect(t, "logprobs", lps, theirs)
	}
}

// From prompt and any prefix of what came, the rest comes again: with and without a header, sampled and not, with a seed
// and without.
func TestAnAnswerGoesOnFromEveryPrefix(t *testing.T) {
	s := Start(t, Options{Seed: 4, TimeScale: fast})
	words := s.tok.Encode("The river runs to the sea and the city waits for its long quiet evening of rain in the old harbor.")
	header := chat(t, "go on")
	for _, length := range []int{1, 3, 8, 15, 16, 20} {
		for _, prompt := range [][]int32{words[:length], slices.Concat(header, words[:length])} {
			for _, how := range []string{`"temperature":1.2`, `"temperature":0.8`, `"temperature":1,"seed":5`, `"temperature":0`} {
				body := func(ids []int32, limit int) string {
					return fmt.Sprintf(`{"prompt":%s,"max_tokens":%d,"ignore_eos":true,"return_token_ids":true,%s}`, encode(ids), limit, how)
				}
				whole := ask(t, s, "/v1/completions", body(prompt, 24)).Choices[0].TokenIDs
				for cut := 1; cut < len(whole); cut++ {
					got := ask(t, s, "/v1/completions", body(slices.Concat(prompt, whole[:cut]), 24-cut)).Choices[0].TokenIDs
					if !slices.Equal(got, whole[cut:]) {
						t.Fatalf("%s, prompt of %d: after %d tokens %v, want %v", how, len(prompt), cut, got, whole[cut:])
					}
				}
			}
		}
	}
}
