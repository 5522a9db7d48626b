package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

var weatherTool = openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
	Name: "get_weather", Description: openai.String("The weather of a city."),
	Parameters: openai.FunctionParameters{"type": "object", "required": []string{"city"},
		"properties": map[string]any{"city": map[string]any{"type": "string"}, "days": map[string]any{"type": "integer"}}},
})

func testTools(t *testing.T, w *world) {
	params := question(routeDefault, "What is the weather in Paris?")
	params.Tools = []openai.ChatCompletionToolUnionParam{weatherTool}
	params.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	a, s := whole(t, w.URL, params), streamed(t, w.URL, params)
	for kind, got := range map[string]*answer{"JSON": a, "stream": s} {
		if c := got.calls[0]; c.name != "get_weather" || c.id == "" || !json.Valid([]byte(c.arguments)) {
			t.Errorf("%s: the tool call is %+v", kind, c)
		}
		if got.finish[0] != "tool_calls" || got.told.Tier != "draft" {
			t.Errorf("%s: finish %q from %s", kind, got.finish[0], got.told.Tier)
		}
		if said := got.header.Get("X-Acceptance"); !strings.HasPrefix(said, "accepted;reason=") {
			t.Errorf("%s: X-Acceptance is %q", kind, said)
		}
	}
	if a.calls[0].arguments != s.calls[0].arguments {
		t.Errorf("JSON calls with %s, the stream with %s", a.calls[0].arguments, s.calls[0].arguments)
	}
	params.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("none")}
	if got := whole(t, w.URL, params); got.finish[0] == "tool_calls" || len(got.calls) > 0 {
		t.Errorf("tools were forbidden, but called: %+v", got.calls)
	}
}

func testTwoChoices(t *testing.T, w *world) {
	params := question(routeDefault, "Name a colour.")
	params.N, params.Temperature, params.Seed = openai.Int(2), openai.Float(1), openai.Int(11)
	a, s := whole(t, w.URL, params), streamed(t, w.URL, params)
	for kind, got := range map[string]*answer{"JSON": a, "stream": s} {
		if len(got.texts) != 2 || got.texts[0] == "" || got.texts[1] == "" || got.texts[0] == got.texts[1] {
			t.Errorf("%s: the choices are %v", kind, got.texts)
		}
		if got.finish[0] == "" || got.finish[1] == "" || got.told.Tier != "target" {
			t.Errorf("%s: finish %v from %s", kind, got.finish, got.told.Tier)
		}
	}
	if a.texts[0] != s.texts[0] || a.texts[1] != s.texts[1] || a.usage.CompletionTokens != s.usage.CompletionTokens {
		t.Errorf("JSON and stream differ: %v and %v", a.texts, s.texts)
	}
}

func testLogprobs(t *testing.T, w *world) {
	c := client(w.URL)
	params := question(routeDefault, "Name a river.")
	params.Logprobs, params.TopLogprobs = openai.Bool(true), openai.Int(3)
	a, err := c.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	listed := a.Choices[0].Logprobs.Content
	if int64(len(listed)) != a.Usage.CompletionTokens || len(listed[0].TopLogprobs) != 3 {
		t.Errorf("%d log probabilities of %d tokens", len(listed), a.Usage.CompletionTokens)
	}
}

func testStructured(t *testing.T, w *world) {
	for _, route := range []string{routeDefault, routeAccept, routeReject} {
		for i := range 5 {
			params := question(route, fmt.Sprintf("Rate hotel %d.", i))
			params.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONObject: &openai.ResponseFormatJSONObjectParam{}}
			for kind, got := range map[string]*answer{"JSON": whole(t, w.URL, params), "stream": streamed(t, w.URL, params)} {
				if !json.Valid([]byte(got.texts[0])) || got.finish[0] != "stop" || got.told.Tier == "mixed" {
					t.Errorf("%s %s: finish %q from %s, %q", route, kind, got.finish[0], got.told.Tier, got.texts[0])
				}
			}
		}
	}
}

func testStopsAndLimits(t *testing.T, w *world) {
	for _, way := range ways {
		if way.tier == "auto" && way.route != routeAccept && way.route != routeAlone {
			continue // which tier answers may depend on where the text ends
		}
		params := question(way.route, "Write about rivers and bridges.")
		full := streamed(t, w.URL, params, tier(way.tier)).texts[0]
		if len(full) < 80 {
			t.Fatalf("%s: the answer is too short to be cut: %q", way.route, full)
		}
		stop := full[31:47]
		params.Stop = openai.ChatCompletionNewParamsStopUnion{OfStringArray: []string{"never said", stop}}
		limited := question(way.route, "Describe the library of a small town at length.")
		limited.MaxTokens = openai.Int(33)
		forever := option.WithJSONSet("ignore_eos", true)
		for kind, ask := range map[string]func(*testing.T, string, openai.ChatCompletionNewParams, ...option.RequestOption) *answer{
			"JSON": whole, "stream": streamed,
		} {
			if got := ask(t, w.URL, params, tier(way.tier)); got.texts[0] != full[:strings.Index(full, stop)] || got.finish[0] != "stop" {
				t.Errorf("%+v %s, stop %q: finish %q, text %q", way, kind, stop, got.finish[0], got.texts[0])
			}
			if got := ask(t, w.URL, limited, tier(way.tier), forever); got.usage.CompletionTokens != 33 || got.finish[0] != "length" {
				t.Errorf("%+v %s: %d of 33 tokens came, finish %q", way, kind, got.usage.CompletionTokens, got.finish[0])
			}
		}
	}
}
