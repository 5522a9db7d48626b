package openai

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// ask posts a request to a simulator.
func ask(t *testing.T, s *vllmsim.Server, kind Kind, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+kind.Path(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s, %v", resp.StatusCode, out, err)
	}
	return out
}

func TestAStreamAndABodyOfABackendAreOneAnswer(t *testing.T) {
	s := vllmsim.Start(t, vllmsim.Options{TimeScale: 2000, PromptTokensDetails: true})
	chat := `"model":"sim","temperature":0,"max_tokens":60,"messages":[{"role":"user","content":"Why is the sky blue?"}]`
	tools := `,"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}],"tool_choice":"required","max_completion_tokens":400`
	completion := `"model":"sim","temperature":0,"max_tokens":20,"prompt":"The sky is"`
	for name, c := range map[string]struct {
		kind Kind
		body string
	}{
		"a chat":       {Chat, chat},
		"two choices":  {Chat, strings.Replace(chat, `"temperature":0`, `"temperature":1,"seed":5,"n":2`, 1)},
		"a tool call":  {Chat, chat + tools},
		"a completion": {Completion, completion},
		"two of them":  {Completion, strings.Replace(completion, `"temperature":0`, `"temperature":1,"seed":5,"n":2`, 1)},
	} {
		a := NewAssembler(c.kind, 1<<20)
		a.Body(ask(t, s, c.kind, "{"+c.body+"}"))
		want, err := a.Whole()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := assembled(t, c.kind, ask(t, s, c.kind, "{"+c.body+`,"stream":true,"stream_options":{"include_usage":true}}`), &Ending{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Usage.Cached == 0 && name == "a chat" {
			t.Errorf("%s: nothing of the prompt was cached the second time", name)
		}
		got.Usage.Cached = want.Usage.Cached
		for i := range got.Choices {
			for k := range got.Choices[i].Calls { // drawn for each
				got.Choices[i].Calls[k].ID = want.Choices[i].Calls[k].ID
			}
		}
		sameWhole(t, name, want, got)
	}
}
