package openai

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"unicode/utf8"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// client is OpenAI's own, without its retries.
func client(url string) openai.Client {
	return openai.NewClient(option.WithBaseURL(url+"/v1/"), option.WithAPIKey("none"), option.WithMaxRetries(0), option.WithHTTPClient(demanding))
}

// question is a greedy request for a short answer.
func question(model, text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: model, Temperature: openai.Float(0), MaxTokens: openai.Int(120),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

// tier demands a tier.
func tier(name string) option.RequestOption { return option.WithHeader("X-Tier", name) }

// told is the object "foregate" of an answer.
type told struct {
	Tier           string
	AcceptedTokens int `json:"accepted_tokens"`
	TargetTokens   int `json:"target_tokens"`
}

// parseTold reads the object; an answer without one fails the test.
func parseTold(t *testing.T, raw string) told {
	t.Helper()
	var out told
	if err := json.Unmarshal([]byte(raw), &out); err != nil {
		t.Fatalf("the foregate object %q: %v", raw, err)
	}
	return out
}

// answer is what came of a streamed or a whole request.
type answer struct {
	id, model string
	header    http.Header
	texts     map[int64]string // by choice
	finish    map[int64]string
	calls     map[int64]call
	usage     openai.CompletionUsage
	told      told
}

type call struct{ id, name, arguments string }

// read takes in an answer that is whole.
func read(c *openai.ChatCompletion, header http.Header) *answer {
	a := &answer{id: c.ID, model: c.Model, header: header, usage: c.Usage, texts: map[int64]string{}, finish: map[int64]string{}, calls: map[int64]call{}}
	for _, choice := range c.Choices {
		a.texts[choice.Index], a.finish[choice.Index] = choice.Message.Content, choice.FinishReason
		for _, tool := range choice.Message.ToolCalls {
			a.calls[choice.Index] = call{tool.ID, tool.Function.Name, tool.Function.Arguments}
		}
	}
	return a
}

// whole makes a request for JSON.
func whole(t *testing.T, url string, params openai.ChatCompletionNewParams, opts ...option.RequestOption) *answer {
	t.Helper()
	var resp *http.Response
	c := client(url)
	got, err := c.Chat.Completions.New(t.Context(), params, append(opts, option.WithResponseInto(&resp))...)
	if err != nil {
		t.Fatalf("chat completion: %v", err)
	}
	a := read(got, resp.Header)
	a.told = parseTold(t, got.JSON.ExtraFields["foregate"].Raw())
	return a
}

// streamed makes a request for a stream with usage. The client's accumulator must take every chunk;
// a role comes first, usage once, and the object "foregate" in the last chunk.
func streamed(t *testing.T, url string, params openai.ChatCompletionNewParams, opts ...option.RequestOption) *answer {
	t.Helper()
	var resp *http.Response
	c := client(url)
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	s := c.Chat.Completions.NewStreaming(t.Context(), params, append(opts, option.WithResponseInto(&resp))...)
	defer func() { _ = s.Close() }() // read to its end, or broken already
	var acc openai.ChatCompletionAccumulator
	last := ""
	for n := 0; s.Next(); n++ {
		chunk := s.Current()
		if n == 0 && (len(chunk.Choices) == 0 || chunk.Choices[0].Delta.Role != "assistant") {
			t.Errorf("the first chunk does not open with a role: %s", chunk.RawJSON())
		}
		if !acc.AddChunk(chunk) || last != "" || !utf8.ValidString(chunk.RawJSON()) || chunk.Usage.TotalTokens > 0 && acc.Usage.TotalTokens != chunk.Usage.TotalTokens {
			t.Errorf("chunk %d does not fit those before it: %q", n, chunk.RawJSON())
		}
		last = chunk.JSON.ExtraFields["foregate"].Raw()
	}
	if err := s.Err(); err != nil {
		t.Fatalf("chat stream: %v", err)
	}
	a := read(&acc.ChatCompletion, resp.Header)
	a.told = parseTold(t, last)
	return a
}

// checkRefusal holds that an error is OpenAI's, with the given status and code; code "" is any.
func checkRefusal(t *testing.T, err error, status int, code string) {
	t.Helper()
	var refusal *openai.Error
	if !errors.As(err, &refusal) || refusal.StatusCode != status || refusal.Message == "" || code != "" && refusal.Code != code {
		t.Errorf("%v, want status %d and code %q", err, status, code)
	}
}
