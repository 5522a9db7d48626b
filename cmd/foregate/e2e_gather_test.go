package main

import (
	"context"
	"net/http"
	"testing"
	"unicode/utf8"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func newAnswer() *answer {
	return &answer{texts: map[int64]string{}, finish: map[int64]string{}, toolsOf: map[int64]toolText{}}
}

// whole makes a JSON request and returns its answer.
func whole(t *testing.T, p *process, params openai.ChatCompletionNewParams, opts ...option.RequestOption) *answer {
	t.Helper()
	a, err := tryWhole(t, p, params, opts...)
	if err != nil {
		t.Fatalf("chat completion: %v", err)
	}
	return a
}

func tryWhole(t *testing.T, p *process, params openai.ChatCompletionNewParams, opts ...option.RequestOption) (*answer, error) {
	t.Helper()
	var resp *http.Response
	client := p.client()
	got, err := client.Chat.Completions.New(t.Context(), params, append(opts, option.WithResponseInto(&resp))...)
	if err != nil {
		return nil, err
	}
	a := newAnswer()
	a.id, a.model, a.usage, a.header = got.ID, got.Model, got.Usage, resp.Header
	for _, c := range got.Choices {
		if c.Message.Role != "assistant" {
			t.Errorf("choice %d has role %q", c.Index, c.Message.Role)
		}
		a.texts[c.Index], a.finish[c.Index] = c.Message.Content, c.FinishReason
		for _, call := range c.Message.ToolCalls {
			a.toolsOf[c.Index] = toolText{call.ID, call.Function.Name, call.Function.Arguments}
		}
	}
	a.told = parseTold(t, got.JSON.ExtraFields["foregate"].Raw())
	return a, nil
}

// streamed makes a streaming request with usage and checks that what comes is
// well formed: one id and model, the role first, one end per choice, usage and the
// foregate object last.
func streamed(t *testing.T, p *process, params openai.ChatCompletionNewParams, opts ...option.RequestOption) *answer {
	t.Helper()
	a, err := tryStream(t.Context(), t, p, params, opts...)
	if err != nil {
		t.Fatalf("chat stream: %v", err)
	}
	return a
}

func tryStream(ctx context.Context, t *testing.T, p *process, params openai.ChatCompletionNewParams, opts ...option.RequestOption) (*answer, error) {
	t.Helper()
	var resp *http.Response
	client := p.client()
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	s := client.Chat.Completions.NewStreaming(ctx, params, append(opts, option.WithResponseInto(&resp))...)
	defer func() { _ = s.Close() }() // read to its end, or broken already
	a := newAnswer()
	last := ""
	for s.Next() {
		c := s.Current()
		if last != "" {
			t.Errorf("a chunk came after the foregate object: %s", c.RawJSON())
		}
		a.chunk(t, &c)
		last = c.JSON.ExtraFields["foregate"].Raw()
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	a.header = resp.Header
	if last == "" {
		t.Fatalf("the last chunk carries no foregate object")
	}
	a.told = parseTold(t, last)
	if a.usage.TotalTokens == 0 {
		t.Error("no usage came")
	}
	return a, nil
}

// chunk takes in one chunk of a stream.
func (a *answer) chunk(t *testing.T, c *openai.ChatCompletionChunk) {
	t.Helper()
	if a.chunks++; a.chunks == 1 {
		a.id, a.model = c.ID, c.Model
		if len(c.Choices) == 0 || c.Choices[0].Delta.Role != "assistant" {
			t.Errorf("the first chunk does not open with a role: %s", c.RawJSON())
		}
	}
	if c.ID != a.id || c.Model != a.model || string(c.Object) != "chat.completion.chunk" {
		t.Errorf("chunk %d is of another answer: %s", a.chunks, c.RawJSON())
	}
	if !utf8.ValidString(c.RawJSON()) {
		t.Errorf("chunk %d is no UTF-8: %q", a.chunks, c.RawJSON())
	}
	for _, ch := range c.Choices {
		if a.finish[ch.Index] != "" {
			t.Errorf("choice %d goes on after its end: %s", ch.Index, c.RawJSON())
		}
		a.texts[ch.Index] += ch.Delta.Content
		a.finish[ch.Index] += ch.FinishReason
		for _, call := range ch.Delta.ToolCalls {
			tool := a.toolsOf[ch.Index]
			tool.id += call.ID
			tool.name += call.Function.Name
			tool.args += call.Function.Arguments
			a.toolsOf[ch.Index] = tool
		}
	}
	if c.Usage.TotalTokens > 0 {
		if a.usage.TotalTokens > 0 {
			t.Errorf("usage came twice: %s", c.RawJSON())
		}
		a.usage = c.Usage
	}
}
