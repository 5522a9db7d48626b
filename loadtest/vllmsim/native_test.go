package vllmsim

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// nativeAnswer is what the tests read of SGLang's /generate.
type nativeAnswer struct {
	Text      string
	OutputIDs []int32 `json:"output_ids"`
	Meta      struct {
		PromptTokens     int       `json:"prompt_tokens"`
		CompletionTokens int       `json:"completion_tokens"`
		CachedTokens     int       `json:"cached_tokens"`
		Input            [][]any   `json:"input_token_logprobs"`
		InputTop         [][][]any `json:"input_top_logprobs"`
		Output           [][]any   `json:"output_token_logprobs"`
		Finish           struct {
			Type    string
			Matched any
			Length  int
		} `json:"finish_reason"`
	} `json:"meta_info"`
}

func natively(t *testing.T, s *Server, body string) nativeAnswer {
	t.Helper()
	status, text := post(t, s, "/generate", body)
	if status != 200 {
		t.Fatalf("%s: %d %s", body, status, text)
	}
	var a nativeAnswer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return a
}

func nativeScore(ids []int32, start, top int) string {
	return fmt.Sprintf(`{"input_ids":%s,"sampling_params":{"max_new_tokens":1,"temperature":0},"return_logprob":true,"logprob_start_len":%d,"top_logprobs_num":%d}`,
		appendIDs(nil, ids), start, top)
}

func TestSGLangScoresFromAPlaceOnAndKeepsItsCache(t *testing.T) {
	s := Start(t, Options{Seed: 3, TimeScale: fast, SGLang: true})
	m := NewModel(3, 0)
	prompt := chat(t, strings.Repeat("What is it of the sea? ", 20))
	draft, _ := greedy(NewModel(3, 0.4), prompt, 40)
	ids := append(slices.Clone(prompt), draft...)
	start := len(prompt) - 1
	for round := range 2 {
		a := natively(t, s, nativeScore(ids, start, 2))
		expect(t, "entries", len(a.Meta.Input), len(draft)+1)
		expect(t, "alternatives", len(a.Meta.InputTop), len(draft)+1)
		if a.Meta.Input[0][0] != nil || a.Meta.InputTop[0] != nil || a.Meta.Input[0][1] != float64(prompt[start]) {
			t.Errorf("of the first nothing is told but its id: %v, %v", a.Meta.Input[0], a.Meta.InputTop[0])
		}
		for j, id := range draft {
			d := m.Next(ids[:len(prompt)+j])
			want := []any{d.LogProb(id), float64(id), nil}
			if got := a.Meta.Input[j+1]; !slices.Equal(got, want) {
				t.Fatalf("token %d: %v, want %v", j, got, want)
			}
			for k, c := range d.topN(2) {
				if got := a.Meta.InputTop[j+1][k]; !slices.Equal(got, []any{math.Log(c.P), float64(c.ID), nil}) {
					t.Fatalf("alternative %d of %d: %v, want %v", k, j, got, c)
				}
			}
		}
		next := m.Next(ids)
		expect(t, "its own choice", a.OutputIDs[0], next.Argmax())
		expect(t, "cached", a.Meta.CachedTokens, round*(start/BlockSize*BlockSize))
	}
	if a := natively(t, s, nativeScore(ids, 0, 0)); a.Meta.CachedTokens != 0 || len(a.Meta.Input) != len(ids) {
		t.Errorf("scored from the start: %d entries of %d, %d cached", len(a.Meta.Input), len(ids), a.Meta.CachedTokens)
	}
	if a := natively(t, s, fmt.Sprintf(`{"input_ids":%s,"sampling_params":{"max_new_tokens":0}}`, appendIDs(nil, ids))); len(a.OutputIDs) != 0 || a.Meta.Input != nil {
		t.Errorf("nothing was asked: %+v", a)
	}
}

// A scored suffix is charged for what is computed again, and for the head from the place on.
func TestSGLangIsChargedForWhatItComputesAgain(t *testing.T) {
	p := Profile{Blocks: 100, MaxSeqs: 4, MaxBatchedTokens: 4096, Base: 0.01, PerPrefillToken: 0.001, PerKVToken: 1e-5, LMHead: 0.5}
	s := NewScheduler(p, SchedulerOptions{})
	run := func(change func(*Seq)) *Batch {
		q := seq(300, 200, 1)
		change(q)
		s.Add(q, 0)
		b := s.Step(0)
		s.Commit(b)
		return b
	}
	expect(t, "cold", run(func(*Seq) {}).Tokens, 200)
	b := run(func(q *Seq) { q.ScoreFrom = 100 })
	expect(t, "computed again", b.Tokens, 200-96)
	expect(t, "time", b.End-b.Start, p.stepTime(work{prefill: 104, scored: 100, kvRead: 200}))
	expect(t, "looked up", s.Counts().PrefixHits, 96)
	expect(t, "vLLM computes all", run(func(q *Seq) { q.NoCacheRead = true }).Tokens, 200)
}

func TestSGLangAnswersItsOwnWay(t *testing.T) {
	s := Start(t, Options{Seed: 3, TimeScale: fast, SGLang: true})
	prompt := chat(t, "Tell me more.")
	a := natively(t, s, fmt.Sprintf(`{"input_ids":%s,"sampling_params":{"max_new_tokens":5,"temperature":0},"return_logprob":true}`, appendIDs(nil, prompt)))
	own, _ := greedy(NewModel(3, 0), prompt, 5)
	expect(t, "ids", fmt.Sprint(a.OutputIDs), fmt.Sprint(own))
	expect(t, "text", a.Text, s.tok.Decode(own, true))
	expect(t, "finish", fmt.Sprint(a.Meta.Finish), "{length <nil> 5}")
	expect(t, "logprobs", len(a.Meta.Output), 5)
	expect(t, "usage", [2]int{a.Meta.PromptTokens, a.Meta.CompletionTokens}, [2]int{len(prompt), 5})
	a = natively(t, s, fmt.Sprintf(`{"input_ids":%s,"sampling_params":{"max_new_tokens":4000,"temperature":0}}`, appendIDs(nil, prompt)))
	expect(t, "the end", fmt.Sprint(a.Meta.Finish), fmt.Sprintf("{stop %d 0}", tokEOT))

	got := ask(t, s, "/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":1,"prompt_logprobs":1}`, appendIDs(nil, prompt)))
	if got.Choices[0].PromptLogprobs != nil {
		t.Error("SGLang knows no prompt_logprobs")
	}
	for _, path := range []string{"/inference/v1/generate", "/v1/chat/completions/render", "/version"} {
		if status, _ := post(t, s, path, `{}`); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, body := range []string{`{}`, `{"input_ids":[40],"text":"x"}`, `{"input_ids":[40],"stream":true}`, `{"input_ids":[-1]}`,
		`{"input_ids":[40],"return_logprob":true,"logprob_start_len":1}`, `{"input_ids":[40],"return_logprob":true,"top_logprobs_num":-1}`} {
		if status, text := post(t, s, "/generate", body); status != 400 {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, _ := post(t, Start(t, Options{TimeScale: fast}), "/generate", nativeScore(prompt, 1, 1)); status != 404 {
		t.Errorf("vLLM has no such route: %d", status)
	}
}

func TestSGLangScoresWrongWhenToldTo(t *testing.T) {
	s := Start(t, Options{Seed: 3, TimeScale: fast, SGLang: true})
	ids := s.tok.Encode(strings.Repeat("Count what is left of it. ", 12))
	const start = 20
	whole := natively(t, s, nativeScore(ids, start, 1)).Meta
	s.SetFault(Fault{Score: "short"})
	short := natively(t, s, nativeScore(ids, start, 1)).Meta
	n := len(ids) - 1 - (len(ids)-1)/BlockSize*BlockSize
	expect(t, "short", fmt.Sprint(short.Input), fmt.Sprint(whole.Input[len(whole.Input)-n:]))
	expect(t, "short alternatives", fmt.Sprint(short.InputTop), fmt.Sprint(whole.InputTop[len(whole.InputTop)-n:]))
	s.SetFault(Fault{Score: "misaligned"})
	late := natively(t, s, nativeScore(ids, start, 1)).Meta
	expect(t, "late", fmt.Sprint(late.Input[1:]), fmt.Sprint(whole.Input[:len(whole.Input)-1]))
	s.SetFault(Fault{Score: "garbage"})
	_, body := post(t, s, "/generate", nativeScore(ids, start, 1))
	if strings.Contains(body, fmt.Sprint(whole.Input[1][0])) {
		t.Error("a number is left: ", body)
	}
	for _, fault := range []string{"error", "die"} { // in this order: after the second nobody answers
		s.SetFault(Fault{Score: fault})
		if got, body := post(t, s, "/generate", nativeScore(ids, start, 1)); got != 500 {
			t.Errorf("%s: %d %s", fault, got, body)
		}
	}
}

func TestAnEngineCanBeWithoutAFeature(t *testing.T) {
	ids := string(appendIDs(nil, chat(t, "Where to?")))
	plain := Start(t, Options{Seed: 2, TimeScale: fast})
	own := ask(t, plain, "/v1/completions", `{"prompt":`+ids+`,"max_tokens":8,"temperature":0}`).Choices[0].Text
	for name, wrong := range map[string]func(t *testing.T, s *Server) bool{
		"token_ids": func(t *testing.T, s *Server) bool {
			a := ask(t, s, "/v1/completions", `{"prompt":`+ids+`,"max_tokens":8,"return_token_ids":true}`)
			status, _ := post(t, s, "/inference/v1/generate", `{}`)
			return a.PromptTokenIDs == nil && a.Choices[0].TokenIDs == nil && status == 404
		},
		"prompt_token_ids": func(t *testing.T, s *Server) bool {
			a := ask(t, s, "/v1/completions", `{"prompt":`+ids+`,"max_tokens":8,"return_token_ids":true}`)
			_, body := post(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"return_token_ids":true,"stream":true}`)
			_, whole := post(t, s, "/v1/completions", `{"prompt":`+ids+`,"max_tokens":1,"return_token_ids":true}`)
			return !strings.Contains(whole, `"prompt_token_ids":[`) && len(a.Choices[0].TokenIDs) == 8 &&
				!strings.Contains(body, `"prompt_token_ids":[`) && strings.Contains(body, `"token_ids":[`)
		},
		"prompt_logprobs": func(t *testing.T, s *Server) bool {
			a := ask(t, s, "/v1/completions", `{"prompt":`+ids+`,"max_tokens":1,"prompt_logprobs":1}`)
			return a.Choices[0].PromptLogprobs == nil
		},
		"tokenize": func(t *testing.T, s *Server) bool {
			status, _ := post(t, s, "/tokenize", `{"prompt":"x"}`)
			return status == 404
		},
		"logprobs": func(t *testing.T, s *Server) bool {
			_, body := post(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"logprobs":true,"top_logprobs":5}`)
			return strings.Contains(body, `"logprobs":null`)
		},
		"end_logprob": func(t *testing.T, s *Server) bool {
			_, body := post(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"temperature":0,"logprobs":true,"return_token_ids":true,"stream":true}`)
			return strings.Contains(body, `"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":[`)
		},
		"running_usage": func(t *testing.T, s *Server) bool {
			_, body := post(t, s, "/v1/completions", `{"prompt":"x","max_tokens":4,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`)
			return strings.Count(body, `"usage":{`) == 1
		},
		"metrics": func(t *testing.T, s *Server) bool {
			status, _ := do(t, s, "GET", "/metrics", "")
			return status == 404
		},
		"continuation": func(t *testing.T, s *Server) bool {
			return ask(t, s, "/v1/completions", `{"prompt":`+ids+`,"max_tokens":8,"temperature":0}`).Choices[0].Text != own
		},
	} {
		t.Run(name, func(t *testing.T) {
			if wrong(t, plain) {
				t.Error("a whole engine has not got it either")
			}
			if !wrong(t, Start(t, Options{Seed: 2, TimeScale: fast, Without: []string{name}})) {
				t.Error("it is there")
			}
		})
	}
	if a := natively(t, Start(t, Options{TimeScale: fast, SGLang: true, Without: []string{"prompt_logprobs"}}), nativeScore([]int32{40, 41}, 0, 1)); a.Meta.Input != nil {
		t.Errorf("SGLang scores: %+v", a)
	}
	if _, err := New(Options{Without: []string{"wings"}}); err == nil || !strings.Contains(err.Error(), "known: token_ids") {
		t.Error(err)
	}
	expect(t, "what can be missing", len(Features()), 9)
}
