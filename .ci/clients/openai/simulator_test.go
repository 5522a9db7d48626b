package openai

import (
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/foregate/foregate/clients/programs"
)

// TestTheClientWorksWithTheSimulator holds the simulator to what the library expects of an engine.
func TestTheClientWorksWithTheSimulator(t *testing.T) {
	url := programs.StartSimulator(t, "--time-scale", "2000")
	c := client(url)
	text := question("sim", "Why is the sky blue?")
	want, err := c.Chat.Completions.New(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	text.StreamOptions.IncludeUsage = openai.Bool(true)
	var acc openai.ChatCompletionAccumulator
	stream := c.Chat.Completions.NewStreaming(t.Context(), text)
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			t.Fatal("a chunk does not fit those before it")
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if got := acc.Choices[0]; got.Message.Content != want.Choices[0].Message.Content || got.FinishReason != want.Choices[0].FinishReason ||
		acc.Usage.CompletionTokens != want.Usage.CompletionTokens || want.Usage.CompletionTokens == 0 {
		t.Errorf("JSON and stream differ: %+v and %+v", want, acc.ChatCompletion)
	}

	several, err := c.Completions.New(t.Context(), openai.CompletionNewParams{
		Model: "sim", MaxTokens: openai.Int(8), N: openai.Int(2), Seed: openai.Int(1), Temperature: openai.Float(1),
		Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"One", "Two", "Three"}},
	})
	if err != nil || len(several.Choices) != 6 {
		t.Fatalf("completions of three prompts: %+v, %v", several, err)
	}
	for i, choice := range several.Choices {
		if choice.Index != int64(i) {
			t.Errorf("choice %d has index %d", i, choice.Index)
		}
	}

	_, err = c.Chat.Completions.New(t.Context(), question("nobody", "x"))
	checkRefusal(t, err, http.StatusNotFound, "")
}
