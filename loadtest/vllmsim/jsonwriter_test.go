package vllmsim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const dataSchema = `{"type":"object","properties":{"city":{"type":"string"},"kind":{"enum":["a","b"]},"list":{"type":"array","items":{"type":"integer"}},"ok":{"type":"boolean"}}}`

// forms are the fields that force an answer's shape, and whether the ids alone tell the model all of it.
var forms = []struct {
	fields string
	byIDs  bool
}{
	{`"response_format":{"type":"json_object"}`, true},
	{`"response_format":{"type":"json_schema","json_schema":{"schema":` + dataSchema + `}}`, false},
	{`"structured_outputs":{"choice":["yes please","no thanks"]}`, false},
	{tools + `,"tool_choice":"required"`, true},
}

// structuredAnswer asks for a structured answer and returns its ids and logprobs, the end included.
func structuredAnswer(t *testing.T, s *Server, user, fields string) (prompt, ids []int32, lps []float64) {
	t.Helper()
	a := written(t, s, fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"logprobs":true,"return_token_ids":true,%s}`, user, fields))
	for _, c := range a.Choices[0].Logprobs.Content {
		lps = append(lps, c.Logprob)
	}
	return a.PromptTokenIDs, a.Choices[0].TokenIDs, lps
}

// scoresOf are what prompt_logprobs says of the ids after the prompt.
func scoresOf(t *testing.T, s *Server, prompt, ids []int32, fields string) (out []rank) {
	t.Helper()
	a := ask(t, s, "/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":1,"prompt_logprobs":0%s}`, encode(slices.Concat(prompt, ids)), fields))
	for i, id := range ids {
		out = append(out, a.Choices[0].PromptLogprobs[len(prompt)+i][strconv.Itoa(int(id))])
	}
	return out
}

// What the server forces it also finds likely: with the fields always, without them where the ids tell the shape.
func TestAStructuredAnswerIsScoredAsItWasGenerated(t *testing.T) {
	s := Start(t, Options{Seed: 3, TimeScale: fast})
	for k := range 12 {
		for _, f := range forms {
			prompt, ids, lps := structuredAnswer(t, s, fmt.Sprintf("form %d", k), f.fields)
			skip := 0
			switch {
			case strings.Contains(f.fields, "response_format"):
				got := scoresOf(t, s, prompt, ids, `,`+f.fields)
				sameScores(t, f.fields, got, lps)
			case strings.Contains(f.fields, "structured_outputs"):
				sameScores(t, f.fields, scoresOf(t, s, prompt, ids, `,`+f.fields), lps)
			}
			if !f.byIDs {
				continue
			}
			if ids[0] != tokPythonTag {
				skip = 1 // nothing in the ids says that JSON is wanted before it begins
			} else if scoresOf(t, s, prompt, ids[:1], "")[0].Logprob < -1 {
				skip = 1 // a call that was required, not the model's own idea
			}
			if tail := scoresOf(t, s, prompt, ids, "")[skip:]; len(lps) > 0 {
				sameScores(t, f.fields+" by ids", tail, lps[skip:])
			} else {
				for i, r := range tail {
					if r.Rank != 1 || r.Logprob < -0.05 {
						t.Errorf("token %d of a call: %+v", i, r)
					}
				}
			}
		}
	}
}

func sameScores(t *testing.T, what string, got []rank, want []float64) {
	t.Helper()
	expect(t, what+": scores", len(got), len(want))
	for i := range got {
		if math.Abs(got[i].Logprob-want[i]) > 1e-9 || got[i].Rank != 1 {
			t.Fatalf("%s: token %d has %+v, generated at %v", what, i, got[i], want[i])
		}
	}
}

// vLLM's grammar does not see the prompt: it begins at the first generated token. Without the fields the model goes on.
func TestAGrammarBeginsAtTheFirstGeneratedToken(t *testing.T) {
	s := Start(t, Options{Seed: 3, TimeScale: fast})
	prompt, ids, _ := structuredAnswer(t, s, "again", forms[0].fields)
	for _, cut := range []int{1, 3, len(ids) - 2} {
		body := fmt.Sprintf(`{"prompt":%s,"max_tokens":100,"temperature":1,"return_token_ids":true`, encode(slices.Concat(prompt, ids[:cut])))
		expect(t, "with the grammar", ask(t, s, "/v1/completions", body+`,"structured_outputs":{"json_object":true}}`).Choices[0].TokenIDs, ids)
		expect(t, "without", ask(t, s, "/v1/completions", body+`}`).Choices[0].TokenIDs, ids[cut:])
	}
}

// A tool call that the model makes of itself goes on from its ids alone, as the tools are in the prompt.
func TestAToolCallGoesOnFromEveryPrefix(t *testing.T) {
	s := Start(t, Options{Seed: 3, TimeScale: fast})
	calls := 0
	for k := range 10 {
		prompt, ids, _ := structuredAnswer(t, s, fmt.Sprintf("call %d", k), tools)
		if ids[0] != tokPythonTag {
			continue
		}
		calls++
		for cut := range ids {
			got := ask(t, s, "/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":200,"return_token_ids":true}`, encode(slices.Concat(prompt, ids[:cut]))))
			expect(t, "the rest", got.Choices[0].TokenIDs, ids[cut:])
		}
	}
	if calls == 0 {
		t.Error("no calls")
	}
}

// The model's JSON is one function of the ids: reading a context anew or writing on gives the same.
func TestStructuredDistributionsArePureFunctionsOfIDs(t *testing.T) {
	for _, m := range []*Model{NewModel(3, 0), NewDraft(3, 0.5, 0.5)} {
		for _, start := range []string{``, `{"`, `{"name": "x y", "n": [1, {"a`, `{ "answer":"b`} {
			ctx := append(chat(t, "pure"), m.tok.Encode(start)...)
			cur := m.cursorAt(ctx)
			var d Dist
			for range 60 {
				m.fill(&cur, &d)
				again := m.Next(ctx)
				if !slices.Equal(d.Top, again.Top) {
					t.Fatalf("%q: two distributions", m.tok.Decode(ctx, false))
				}
				sum := d.Tail * float64(d.Vocab-len(d.Top))
				for _, c := range d.Top {
					sum += c.P
				}
				if math.Abs(sum-1) > 1e-9 || len(d.Top) > numCands {
					t.Fatalf("probabilities of %d candidates sum to %v", len(d.Top), sum)
				}
				ctx = append(slices.Clone(ctx), d.Argmax())
				cur.push(d.Argmax())
			}
		}
	}
}
