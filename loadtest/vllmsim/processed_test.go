package vllmsim

import (
	"encoding/json"
	"math"
	"testing"
)

// drawn is one choice of one token.
type drawn struct {
	IDs      []int32 `json:"token_ids"`
	Logprobs struct {
		Own []float64            `json:"token_logprobs"`
		Top []map[string]float64 `json:"top_logprobs"`
	} `json:"logprobs"`
}

func draws(t *testing.T, s *Server, more string) []drawn {
	t.Helper()
	status, body := post(t, s, "/v1/completions", `{"prompt":"Once there","n":8,"max_tokens":1,"logprobs":20,"return_token_ids":true`+more+`}`)
	var a struct{ Choices []drawn }
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != 200 || len(a.Choices) != 8 {
		t.Fatalf("%d %s %v", status, body, err)
	}
	return a.Choices
}

func TestProcessedLogprobsAreOfTheLawThatATokenWasDrawnBy(t *testing.T) {
	raw := Start(t, Options{Seed: 3, TimeScale: fast})
	processed := Start(t, Options{Seed: 3, TimeScale: fast, LogprobsMode: "processed_logprobs"})
	for _, how := range []string{`,"temperature":0.5`, `,"temperature":1.5`, `,"temperature":1,"top_k":3`, `,"temperature":0.8,"top_p":0.5`, `,"temperature":1,"min_p":0.2`} {
		was, is := draws(t, raw, how), draws(t, processed, how)
		for i := range is {
			if was[i].IDs[0] != is[i].IDs[0] {
				t.Fatalf("%s: choice %d: %v and %v", how, i, was[i].IDs, is[i].IDs)
			}
			sum := 0.0
			for _, lp := range is[i].Logprobs.Top[0] {
				sum += math.Exp(lp)
			}
			if own := is[i].Logprobs.Own[0]; own < -100 || own > 0 || own == was[i].Logprobs.Own[0] || sum < .9 || sum > 1+1e-9 {
				t.Errorf("%s: choice %d was drawn with %g, raw %g; the listed sum to %g", how, i, own, was[i].Logprobs.Own[0], sum)
			}
		}
	}
	plain := `,"temperature":1`
	if was, is := draws(t, raw, plain), draws(t, processed, plain); math.Abs(was[0].Logprobs.Own[0]-is[0].Logprobs.Own[0]) > 1e-9 {
		t.Errorf("at temperature 1: %g and %g", was[0].Logprobs.Own[0], is[0].Logprobs.Own[0])
	}
}

func TestWithFreshSeedsTheSameRequestIsSampledAnew(t *testing.T) {
	s := Start(t, Options{Seed: 3, TimeScale: fast, Fresh: true})
	seen := map[int32]bool{}
	for range 8 {
		for _, c := range draws(t, s, `,"temperature":2`) {
			seen[c.IDs[0]] = true
		}
	}
	if len(seen) < 2 {
		t.Errorf("64 draws gave %d tokens", len(seen))
	}
	one, two := draws(t, s, `,"temperature":1,"seed":4`), draws(t, s, `,"temperature":1,"seed":4`)
	for i := range one {
		if one[i].IDs[0] != two[i].IDs[0] {
			t.Errorf("with a seed, choice %d: %d and %d", i, one[i].IDs[0], two[i].IDs[0])
		}
	}
}

func TestAnUnknownLogprobsModeIsRefused(t *testing.T) {
	if _, err := New(Options{LogprobsMode: "processed_logits"}); err == nil {
		t.Error("it was taken")
	}
}
