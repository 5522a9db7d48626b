package openai

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

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

// replay serves an answer that is at hand in the form that the client asks for.
func replay(t *testing.T, w *Whole) sdk.Client {
	t.Helper()
	f := NewFramer(w.Kind, "id", "llama-3", 7)
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"stream":true`)) {
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = rw.Write(f.WholeStream(nil, w, []byte(`{"tier":"draft"}`), true))
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write(f.Whole(nil, w, []byte(`{"tier":"draft"}`)))
	}))
	t.Cleanup(srv.Close)
	return sdk.NewClient(option.WithBaseURL(srv.URL+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
}

func TestTheOfficialClientReadsBothForms(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 12))
	for range 40 {
		w := aWhole(rng)
		c := replay(t, w)
		if w.Kind == Completion {
			readCompletion(t, c, w)
			continue
		}
		params := sdk.ChatCompletionNewParams{Model: "llama-3", Messages: []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage("x")}}
		whole, err := c.Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		sameChat(t, w, whole)
		var acc sdk.ChatCompletionAccumulator
		stream := c.Chat.Completions.NewStreaming(t.Context(), params)
		for stream.Next() {
			if !acc.AddChunk(stream.Current()) {
				t.Fatal("a chunk does not fit those before it")
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		sameChat(t, w, &acc.ChatCompletion)
	}
}

func sameChat(t *testing.T, w *Whole, got *sdk.ChatCompletion) {
	t.Helper()
	if len(got.Choices) != len(w.Choices) || got.Usage.CompletionTokens != int64(w.Usage.Completion) ||
		got.Usage.PromptTokensDetails.CachedTokens != int64(w.Usage.Cached) || got.Model != "llama-3" || got.ID != "chatcmpl-id" {
		t.Fatalf("%+v of %+v", got, w)
	}
	for i, c := range w.Choices {
		g := got.Choices[i]
		if g.Message.Content != string(c.Text) || g.FinishReason != c.Finish || g.Index != int64(i) || len(g.Message.ToolCalls) != len(c.Calls) {
			t.Fatalf("choice %d: %+v of %+v", i, g, c)
		}
		for k, call := range c.Calls {
			if m := g.Message.ToolCalls[k]; m.ID != call.ID || m.Function.Name != call.Name || m.Function.Arguments != call.Arguments {
				t.Fatalf("call %d: %+v of %+v", k, m, call)
			}
		}
	}
}

func readCompletion(t *testing.T, c sdk.Client, w *Whole) {
	t.Helper()
	params := sdk.CompletionNewParams{Model: "llama-3", Prompt: sdk.CompletionNewParamsPromptUnion{OfString: sdk.String("x")}}
	whole, err := c.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	texts := make([]string, len(w.Choices))
	stream := c.Completions.NewStreaming(t.Context(), params)
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			texts[choice.Index] += choice.Text
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	for i, choice := range w.Choices {
		if g := whole.Choices[i]; g.Text != string(choice.Text) || string(g.FinishReason) != choice.Finish || texts[i] != string(choice.Text) {
			t.Fatalf("choice %d: %q and %q of %+v", i, g.Text, texts[i], choice)
		}
	}
}
