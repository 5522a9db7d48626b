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
		encode(ids), start, top)
}

func TestSGLangScoresFromAPlaceOnAndKeepsItsCache(t *testing.T) {
	s := Start(t, Options{Seed: 3, TimeScale: fast, Engine: engineSGLang})
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
	if a := natively(t, s, fmt.Sprintf(`{"input_ids":%s,"sampling_params":{"max_new_tokens":0}}`, encode(ids))); len(a.OutputIDs) != 0 || a.Meta.Input != nil {
		t.Errorf("nothing was asked: %+v", a)
	}
}
