package vllmsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// generated is what the tests read of /inference/v1/generate.
type generated struct {
	RequestID string `json:"request_id"`
	Choices   []struct {
		Index        int     `json:"index"`
		FinishReason *string `json:"finish_reason"`
		TokenIDs     []int32 `json:"token_ids"`
		Logprobs     *struct {
			Content []struct {
				Token string `json:"token"`
				Top   []struct {
					Token string `json:"token"`
				} `json:"top_logprobs"`
			} `json:"content"`
		} `json:"logprobs"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	PromptLogprobs []map[string]rank `json:"prompt_logprobs"`
}

func generate(t *testing.T, s *Server, body string) generated {
	t.Helper()
	status, text := post(t, s, "/inference/v1/generate", body)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", body, status, text)
	}
	var g generated
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return g
}

func TestWhatIsRenderedGeneratesWhatChatAnswers(t *testing.T) {
	s := Start(t, Options{Seed: 8, TimeScale: fast})
	for k := range 12 {
		how := []string{`"temperature":0`, `"temperature":0.9,"top_p":0.8`, `"seed":4,"stop":["the"]`, `"min_tokens":60,"max_tokens":90`}[k%4]
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Question %d"}],%s,"return_token_ids":true}`, k, how)
		want := ask(t, s, "/v1/chat/completions", body)
		_, rendered := post(t, s, "/v1/chat/completions/render", body)
		got := generate(t, s, rendered)
		expect(t, "id", strings.HasPrefix(got.RequestID, "generate-tokens-"), true)
		expect(t, "ids", got.Choices[0].TokenIDs, want.Choices[0].TokenIDs)
		expect(t, "finish", *got.Choices[0].FinishReason, want.Choices[0].FinishReason)
		expect(t, "prompt", got.Usage.Prompt, want.Usage.PromptTokens)
	}
}

func TestGenerateStreamsTheIDsThatItAnswersWith(t *testing.T) {
	s := Start(t, Options{Seed: 8, TimeScale: fast})
	body := `{"token_ids":[0,300,301],"sampling_params":{"max_tokens":40,"n":3,"ignore_eos":true,"logprobs":3},"stream":%t,"stream_options":{"include_usage":true}}`
	whole := generate(t, s, fmt.Sprintf(body, false))
	_, raw := post(t, s, "/inference/v1/generate", fmt.Sprintf(body, true))
	var ids [3][]int32
	total := 0
	for line := range strings.Lines(raw) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: {")
		if !ok {
			continue
		}
		var g generated
		if err := json.Unmarshal([]byte("{"+data), &g); err != nil {
			t.Fatal(err)
		}
		for _, c := range g.Choices {
			ids[c.Index] = append(ids[c.Index], c.TokenIDs...)
		}
		if g.Usage != nil {
			total = g.Usage.Completion
		}
	}
	expect(t, "usage", total, 120)
	for i, c := range whole.Choices {
		if !slices.Equal(ids[i], c.TokenIDs) {
			t.Errorf("choice %d: %v, streamed %v", i, c.TokenIDs, ids[i])
		}
		for k, lp := range c.Logprobs.Content {
			expect(t, "token", lp.Token, fmt.Sprintf("token_id:%d", c.TokenIDs[k]))
			expect(t, "alternatives", [2]any{len(lp.Top), lp.Top[0].Token}, [2]any{3, lp.Token})
		}
	}
}

func TestGenerateRefusesWhatItCannotRead(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, MaxModelLen: 64})
	var b strings.Builder
	for _, body := range []string{
		`{"sampling_params":{}}`, `{"token_ids":[1]}`, `{"token_ids":[],"sampling_params":{}}`, `{"token_ids":[-1],"sampling_params":{}}`,
		`{"token_ids":["a"],"sampling_params":{}}`, `{"token_ids":[1],"sampling_params":{},"model":"nope"}`,
		`{"token_ids":[999999],"sampling_params":{}}`, `{"token_ids":[999999],"sampling_params":{},"stream":true}`,
		`{"token_ids":[1],"sampling_params":{"prompt_logprobs":21}}`, `{"token_ids":[1],"sampling_params":{"max_tokens":0}}`,
		`{"token_ids":[` + strings.Repeat("300,", 63) + `300],"sampling_params":{}}`,
		`{"token_ids":[` + strings.Repeat("300,", 64) + `300],"sampling_params":{}}`,
	} {
		status, got := post(t, s, "/inference/v1/generate", body)
		fmt.Fprintf(&b, "%s\n%d %s\n\n", body, status, got)
	}
	golden(t, "generate_errors.txt", b.String())
	g := generate(t, s, `{"token_ids":[0,300],"sampling_params":{"ignore_eos":true}}`)
	expect(t, "the rest of the context", g.Usage.Completion, 62)
}

func TestRenderedCompletionsAreAListThatLoadsNothing(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, MaxQueuedReqs: 1, Fault: Fault{Slow: 1e6}})
	begun := begin(s, fmt.Sprintf(endless, false))
	eventually(t, "the server is full", func() bool { return s.State().Running == 1 })
	_, text := post(t, s, "/v1/completions/render", `{"prompt":["a","b"],"max_tokens":5}`)
	var list []struct {
		TokenIDs []int32 `json:"token_ids"`
		Sampling struct {
			MaxTokens int `json:"max_tokens"`
		} `json:"sampling_params"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	expect(t, "requests", len(list), 2)
	want := append([]int32{tokBOS}, s.tok.Encode("b")...)
	if d := cmp.Diff(want, list[1].TokenIDs); d != "" || list[1].Sampling.MaxTokens != 5 {
		t.Error(text, d)
	}
	if err := s.SetFault(Fault{Die: true}); err != nil {
		t.Fatal(err)
	}
	expect(t, "status", (<-begun).status, 500)
}
