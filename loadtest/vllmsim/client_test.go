package vllmsim

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

// official is OpenAI's own client, pointed at a simulator.
func official(t *testing.T, s *Server) openai.Client {
	t.Helper()
	return openai.NewClient(option.WithBaseURL(s.URL()+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
}

func question(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: "sim", Temperature: openai.Float(0), MaxCompletionTokens: openai.Int(40),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

func TestTheOfficialClientChats(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	c := official(t, s)
	whole, err := c.Chat.Completions.New(t.Context(), question("Why is the sky blue?"))
	if err != nil {
		t.Fatal(err)
	}
	params := question("Why is the sky blue?")
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := c.Chat.Completions.NewStreaming(t.Context(), params)
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			t.Fatal("a chunk does not fit those before it")
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	expect(t, "text", acc.Choices[0].Message.Content, whole.Choices[0].Message.Content)
	expect(t, "finish", acc.Choices[0].FinishReason, whole.Choices[0].FinishReason)
	expect(t, "tokens", acc.Usage.CompletionTokens, whole.Usage.CompletionTokens)
	if whole.Usage.CompletionTokens == 0 || whole.Choices[0].Message.Content == "" {
		t.Errorf("an empty answer: %+v", whole.Usage)
	}
}

func TestTheOfficialClientReadsLogprobsToolsAndModels(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	c := official(t, s)
	params := question("Name a river.")
	params.Logprobs, params.TopLogprobs = openai.Bool(true), openai.Int(3)
	a, err := c.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(a.Choices[0].Logprobs.Content); int64(n) != a.Usage.CompletionTokens || len(a.Choices[0].Logprobs.Content[0].TopLogprobs) != 3 {
		t.Errorf("%d logprobs of %d tokens", n, a.Usage.CompletionTokens)
	}

	params = question("What is the weather in Paris?")
	params.MaxCompletionTokens = openai.Int(400)
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "weather", Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}},
	})}
	params.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	if a, err = c.Chat.Completions.New(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	call := a.Choices[0].Message.ToolCalls[0].Function
	if call.Name != "weather" || !json.Valid([]byte(call.Arguments)) || a.Choices[0].FinishReason != "tool_calls" {
		t.Errorf("%+v, %s", call, a.Choices[0].FinishReason)
	}

	models, err := c.Models.List(t.Context())
	if err != nil || len(models.Data) != 1 || models.Data[0].ID != "sim" {
		t.Errorf("%+v, %v", models, err)
	}
}

func TestTheOfficialClientCompletesSeveralPrompts(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	c := official(t, s)
	a, err := c.Completions.New(t.Context(), openai.CompletionNewParams{
		Model: "sim", MaxTokens: openai.Int(8), N: openai.Int(2), Seed: openai.Int(1), Temperature: openai.Float(1),
		Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"One", "Two", "Three"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "choices", len(a.Choices), 6)
	for i := range a.Choices {
		expect(t, "index", a.Choices[i].Index, int64(i))
	}
}

func TestTheOfficialClientUnderstandsErrors(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	c := official(t, s)
	params := question("x")
	params.Model = "nobody"
	_, err := c.Chat.Completions.New(t.Context(), params)
	var refusal *openai.Error
	if !errors.As(err, &refusal) || refusal.StatusCode != http.StatusNotFound || !strings.Contains(refusal.Message, "nobody") {
		t.Errorf("%v", err)
	}
	if err := s.SetFault(Fault{ErrorEventAfterTokens: 3}); err != nil {
		t.Fatal(err)
	}
	stream := c.Chat.Completions.NewStreaming(t.Context(), question("x"))
	for stream.Next() { // only the end matters
	}
	if err := stream.Err(); err == nil || !strings.Contains(err.Error(), "Internal server error") {
		t.Errorf("a stream that broke ended with %v", err)
	}
}
