package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// simFast is a time scale at which nothing is waited for.
const simFast = 2000

// askSim posts to a simulated engine.
func askSim(t *testing.T, s *vllmsim.Server, path string, body []byte) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v: %.300s", path, res.StatusCode, err, answer)
	}
	return answer
}

// simEngines are a vLLM and an SGLang of the same model, by the styles that they know.
func simEngines(t *testing.T) map[ScoreStyle]*vllmsim.Server {
	vllm := vllmsim.Start(t, vllmsim.Options{Seed: 3, TimeScale: simFast, PromptTokensDetails: true})
	return map[ScoreStyle]*vllmsim.Server{
		ScoreCompletions: vllm,
		ScoreSGLang:      vllmsim.Start(t, vllmsim.Options{Seed: 3, TimeScale: simFast, Engine: "sglang"}),
	}
}

// written is what the model of the engines writes itself behind a prompt.
func written(t *testing.T, s *vllmsim.Server, prompt []int32, n int) []int32 {
	t.Helper()
	ids, err := json.Marshal(prompt)
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Appendf(nil, `{"model":"sim","prompt":%s,"max_tokens":%d,"temperature":0,"logprobs":1,"return_token_ids":true}`, ids, n)
	got, err := ParseDraftAnswer(askSim(t, s, Completion.Path(), body), false)
	if err != nil || len(got.IDs) != n {
		t.Fatalf("%+v, %v", got, err)
	}
	return got.IDs
}

func TestAnEngineScoresItsOwnWordsHighestAndSaysSoInEveryStyle(t *testing.T) {
	engines := simEngines(t)
	prompt := make([]int32, 70)
	for i := range prompt {
		prompt[i] = int32(300 + i*7)
	}
	own := written(t, engines[ScoreCompletions], prompt, 24)
	other := slices.Clone(own)
	other[9] += 3
	for _, top := range []int{1, 5} {
		var first, changed []Scored
		for _, style := range scoreStyles {
			q := ScoreQuestion{Style: style, Model: "sim", Prompt: prompt, Draft: own, Top: top, Salt: "s"}
			got, err := q.Parse(askSim(t, engines[style], q.Path(), q.Body(nil)))
			if err != nil || len(got.Tokens) != len(own) {
				t.Fatalf("%s: %v", style, err)
			}
			checkScores(t, &q, got)
			for i, s := range got.Tokens {
				if s.TopID != own[i] {
					t.Errorf("%s, token %d: it wrote %d itself, but prefers %d: %+v", style, i, own[i], s.TopID, s)
				}
			}
			if first = cmpOr(first, got.Tokens); !cmp.Equal(first, got.Tokens) {
				t.Errorf("%s says otherwise: %s", style, cmp.Diff(first, got.Tokens))
			}
			q.Draft = other
			got, err = q.Parse(askSim(t, engines[style], q.Path(), q.Body(nil)))
			if err != nil {
				t.Fatalf("%s: %v", style, err)
			}
			if s := got.Tokens[9]; s.TopID != own[9] || s.Logprob >= s.Top {
				t.Errorf("%s: a token that it did not write: %+v", style, s)
			}
			if changed = cmpOr(changed, got.Tokens); !cmp.Equal(changed, got.Tokens) {
				t.Errorf("%s says otherwise: %s", style, cmp.Diff(changed, got.Tokens))
			}
			if style == ScoreSGLang && got.Cached == 0 || style != ScoreSGLang && got.Cached != 0 {
				t.Errorf("%s read %d tokens from its cache", style, got.Cached)
			}
		}
	}
}

// cmpOr is the first where it is there.
func cmpOr(a, b []Scored) []Scored {
	if a != nil {
		return a
	}
	return b
}

func TestAJudgeSaysOneTokenAndFiveAlternativesWhateverTheRequestWanted(t *testing.T) {
	s := vllmsim.Start(t, vllmsim.Options{Seed: 3, TimeScale: simFast})
	r, err := Scan(Chat, []byte(`{"model":"auto","messages":[{"role":"user","content":"2+2?"}],"n":3,"stop":"4","stream":true,"min_tokens":9,"max_tokens":99}`), DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Choices []struct {
			Logprobs struct {
				Content []struct {
					Top []any `json:"top_logprobs"`
				}
			}
		}
	}
	body := askSim(t, s, Chat.Path(), (&JudgeQuestion{Model: "sim", Request: r, Answer: []byte("It is 4."), Salt: "s", Priority: nil}).Body(nil))
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Choices) != 1 || len(answer.Choices[0].Logprobs.Content) != 1 || len(answer.Choices[0].Logprobs.Content[0].Top) != 5 {
		t.Errorf("got %s", body)
	}
	if odds, err := ParseJudge(body); err != nil && !errors.Is(err, ErrScores) {
		t.Errorf("%g, %v", odds, err)
	}
}
