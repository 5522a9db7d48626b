package llamatest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// post sends a request and reads its answer, which has to be of a status.
func post(t *testing.T, url, body string, status int, answer any) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Fatalf("%s: %s, %v: %s", url, resp.Status, err, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// entry is one of llama-server's logprobs.
type entry struct {
	ID      int     `json:"id"`
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Top     []entry `json:"top_logprobs"`
}

type completion struct {
	Choices []struct {
		Text    string `json:"text"`
		Finish  string `json:"finish_reason"`
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Logprobs struct {
			Content []entry `json:"content"`
		} `json:"logprobs"`
	} `json:"choices"`
}

const question = `"messages":[{"role":"user","content":"Why is the sky blue?"}],"temperature":0`

func TestAnAnswerIsGoneOnWithFromItsTextAndFromItsIDs(t *testing.T) {
	e := Start(t, Options{Model: Model{Name: "further", Seed: 1}})
	var whole, half, text, ids completion
	post(t, e.URL+"/v1/chat/completions", `{`+question+`,"max_tokens":16}`, http.StatusOK, &whole)
	post(t, e.URL+"/v1/chat/completions", `{`+question+`,"max_tokens":8}`, http.StatusOK, &half)
	began := half.Choices[0].Message.Content
	messages := `{"messages":[{"role":"user","content":"Why is the sky blue?"},{"role":"assistant","content":"` + began + `"}],"temperature":0,"max_tokens":8}`
	post(t, e.URL+"/v1/chat/completions", messages, http.StatusOK, &text)
	if got := began + text.Choices[0].Message.Content; got != whole.Choices[0].Message.Content {
		t.Errorf("from its text %q, not %q", got, whole.Choices[0].Message.Content)
	}
	var prompt struct {
		Prompt string `json:"prompt"`
	}
	post(t, e.URL+"/apply-template", `{"messages":[{"role":"user","content":"Why is the sky blue?"}]}`, http.StatusOK, &prompt)
	content, err := json.Marshal(map[string]any{"content": prompt.Prompt + began, "add_special": true})
	if err != nil {
		t.Fatal(err)
	}
	var tokens struct {
		Tokens []int `json:"tokens"`
	}
	post(t, e.URL+"/tokenize", string(content), http.StatusOK, &tokens)
	body, err := json.Marshal(map[string]any{"prompt": tokens.Tokens, "temperature": 0, "max_tokens": 8})
	if err != nil {
		t.Fatal(err)
	}
	post(t, e.URL+"/v1/completions", string(body), http.StatusOK, &ids)
	if got := began + ids.Choices[0].Text; got != whole.Choices[0].Message.Content {
		t.Errorf("from its ids %q, not %q", got, whole.Choices[0].Message.Content)
	}
}

func TestAPromptThatIsTooLongIsRefusedWithItsLength(t *testing.T) {
	e := Start(t, Options{Model: Model{Name: "short", Seed: 1}, Window: 256})
	var refused struct {
		Error struct {
			Type   string `json:"type"`
			Prompt int    `json:"n_prompt_tokens"`
			Window int    `json:"n_ctx"`
		} `json:"error"`
	}
	post(t, e.URL+"/v1/completions", `{"prompt":"`+strings.Repeat(" the", 300)+`"}`, http.StatusBadRequest, &refused)
	if got := refused.Error; got.Type != "exceed_context_size_error" || got.Prompt != 301 || got.Window != 256 {
		t.Errorf("%+v", got)
	}
}
