package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/foregate/foregate/clients/programs"
)

// anthropicClient is Anthropic's own, without its retries.
func anthropicClient(url string) anthropic.Client {
	return anthropic.NewClient(
		anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("none"), anthropicoption.WithMaxRetries(0), anthropicoption.WithHTTPClient(demanding),
	)
}

// demanding is [programs.Client], which says more where [exactly] wants it.
var demanding = func() *http.Client {
	c := *programs.Client
	c.Transport = demands{}
	return &c
}()

type demands struct{}

type exactKey struct{}

// exactly demands exact answers, which no cache has: drafts differ from them, and which draft is accepted depends on audits.
func exactly(ctx context.Context) context.Context { return context.WithValue(ctx, exactKey{}, true) }

func (demands) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Value(exactKey{}) != nil {
		r = r.Clone(r.Context())
		r.Header.Set("X-Acceptance-Mode", "exact")
		r.Header.Set("Cache-Control", "no-store")
	}
	if t := programs.Client.Transport; t != nil {
		return t.RoundTrip(r)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// said is what a client of any API got.
type said struct {
	text, finish, tool string // tool is the call's name and arguments
	input, output      int64  // tokens
}

// api asks by one API's official client. Finish is in the words of chats.
type api struct {
	whole, stream func(ctx context.Context, url, route, text string, tools bool) (said, error)
}

var apis = map[string]api{
	"chat":      {chatWhole, chatStream},
	"responses": {responsesWhole, responsesStream},
	"messages":  {messagesWhole, messagesStream},
}

func chatParams(route, text string, tools bool) openai.ChatCompletionNewParams {
	p := question(route, text)
	if tools {
		p.Tools = []openai.ChatCompletionToolUnionParam{weatherTool}
		p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	}
	return p
}

func chatSaid(c *openai.ChatCompletion) said {
	choice := c.Choices[0]
	s := said{text: choice.Message.Content, finish: choice.FinishReason, input: c.Usage.PromptTokens, output: c.Usage.CompletionTokens}
	for _, call := range choice.Message.ToolCalls {
		s.tool += call.Function.Name + call.Function.Arguments
	}
	return s
}

func chatWhole(ctx context.Context, url, route, text string, tools bool) (said, error) {
	c := client(url)
	got, err := c.Chat.Completions.New(ctx, chatParams(route, text, tools))
	if err != nil {
		return said{}, err
	}
	return chatSaid(got), nil
}

func chatStream(ctx context.Context, url, route, text string, tools bool) (said, error) {
	c := client(url)
	p := chatParams(route, text, tools)
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	s := c.Chat.Completions.NewStreaming(ctx, p)
	defer func() { _ = s.Close() }()
	var acc openai.ChatCompletionAccumulator
	for s.Next() {
		acc.AddChunk(s.Current())
	}
	if err := s.Err(); err != nil {
		return said{}, err
	}
	return chatSaid(&acc.ChatCompletion), nil
}

var weatherSchema = map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}}

func responsesParams(route, text string, tools bool) responses.ResponseNewParams {
	p := responses.ResponseNewParams{
		Model: route, Temperature: openai.Float(0), MaxOutputTokens: openai.Int(120),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)},
	}
	if tools {
		p.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "get_weather", Parameters: weatherSchema, Strict: openai.Bool(false)}}}
		p.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsRequired)}
	}
	return p
}

func responsesSaid(r *responses.Response) said {
	s := said{text: r.OutputText(), finish: "stop", input: r.Usage.InputTokens, output: r.Usage.OutputTokens}
	if r.Status == responses.ResponseStatusIncomplete {
		s.finish = "length"
	}
	for _, item := range r.Output {
		if item.Type == "function_call" {
			s.tool += item.Name + item.AsFunctionCall().Arguments
			s.finish = "tool_calls"
		}
	}
	return s
}

func responsesWhole(ctx context.Context, url, route, text string, tools bool) (said, error) {
	c := client(url)
	r, err := c.Responses.New(ctx, responsesParams(route, text, tools))
	if err != nil {
		return said{}, err
	}
	return responsesSaid(r), nil
}

func responsesStream(ctx context.Context, url, route, text string, tools bool) (said, error) {
	c := client(url)
	s := c.Responses.NewStreaming(ctx, responsesParams(route, text, tools))
	defer func() { _ = s.Close() }()
	var deltas string
	var last *responses.Response
	for n := int64(0); s.Next(); n++ {
		e := s.Current()
		if e.SequenceNumber != n {
			return said{}, fmt.Errorf("event %d has the number %d", n, e.SequenceNumber)
		}
		switch e.Type {
		case "response.output_text.delta":
			deltas += e.AsResponseOutputTextDelta().Delta
		case "response.completed", "response.incomplete":
			last = &e.Response
		case "error":
			return said{}, errors.New(e.Message)
		}
	}
	if err := s.Err(); err != nil {
		return said{}, err
	}
	if last == nil || deltas != last.OutputText() {
		return said{}, fmt.Errorf("the parts %q are not the answer", deltas)
	}
	return responsesSaid(last), nil
}

func messagesParams(route, text string, tools bool) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{
		Model: anthropic.Model(route), MaxTokens: 120, Temperature: anthropic.Float(0),
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
	}
	if tools {
		p.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
			Name: "get_weather", InputSchema: anthropic.ToolInputSchemaParam{Properties: weatherSchema["properties"], Required: []string{"city"}},
		}}}
		p.ToolChoice = anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{}}
	}
	return p
}

func messagesSaid(m *anthropic.Message) said {
	words := map[anthropic.StopReason]string{"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls", "stop_sequence": "stop"}
	s := said{finish: words[m.StopReason], input: m.Usage.InputTokens + m.Usage.CacheReadInputTokens, output: m.Usage.OutputTokens}
	for _, b := range m.Content {
		s.text += b.Text
		if b.Type == "tool_use" {
			s.tool += b.Name + strings.ReplaceAll(string(b.Input), `":"`, `": "`) // the library joins a whole answer's object closely
		}
	}
	return s
}

func messagesWhole(ctx context.Context, url, route, text string, tools bool) (said, error) {
	c := anthropicClient(url)
	m, err := c.Messages.New(ctx, messagesParams(route, text, tools))
	if err != nil {
		return said{}, err
	}
	return messagesSaid(m), nil
}

func messagesStream(ctx context.Context, url, route, text string, tools bool) (said, error) {
	c := anthropicClient(url)
	s := c.Messages.NewStreaming(ctx, messagesParams(route, text, tools))
	defer func() { _ = s.Close() }()
	var m anthropic.Message
	for s.Next() {
		if err := m.Accumulate(s.Current()); err != nil {
			return said{}, err
		}
	}
	if err := s.Err(); err != nil {
		return said{}, err
	}
	return messagesSaid(&m), nil
}

// modeSettings are the modes in which all clients ask.
var modeSettings = map[string]string{routeAlone: "off", routeAccept: "confidence", routeDefault: "risk"}

// inForce reports whether the gateway goes by a setting, NAME@ROUTE=VALUE.
func (w *world) inForce(t *testing.T, change string) bool {
	name, value, _ := strings.Cut(change, "=")
	name, route, _ := strings.Cut(name, "@")
	_, page := programs.Get(t, w.Admin+"/admin/settings?route="+route)
	var got struct {
		Settings []struct{ Name, Value string }
	}
	if err := json.Unmarshal([]byte(page), &got); err != nil {
		t.Fatal(err)
	}
	for _, s := range got.Settings {
		if own, _, _ := strings.Cut(s.Name, "@"); own == name {
			return s.Value == value
		}
	}
	return false
}

func TestTheClientsOfAllAPIsGetTheSame(t *testing.T) {
	w := startWorld(t)
	set := func(changes ...string) {
		programs.Run(t, append([]string{"settings", "set", "--redis", w.redis, "--because", "a test"}, changes...)...)
		programs.Within(t, programs.StartWait, "the settings are in force", func() bool {
			return !slices.ContainsFunc(changes, func(c string) bool { return !w.inForce(t, c) })
		})
	}
	// A warm-up serves drafts by chance, and what is served by chance is not the same twice.
	set("speculation.mode@"+routeAlone+"=off", "speculation.mode@"+routeDefault+"=risk", "risk.warmup@"+routeDefault+"=shadow")
	defer set("speculation.mode@"+routeAlone+"=confidence", "speculation.mode@"+routeDefault+"=confidence") // others share this Redis
	for route, mode := range modeSettings {
		t.Run("mode "+mode, func(t *testing.T) {
			for i := range 2 {
				text := fmt.Sprintf("Tell me of harbour %d in mode %s.", i, mode)
				want, err := chatWhole(exactly(t.Context()), w.URL, route, text, false)
				if err != nil || want.text == "" {
					t.Fatalf("%+v, %v", want, err)
				}
				for name, a := range apis {
					for shape, ask := range map[string]func(context.Context, string, string, string, bool) (said, error){"whole": a.whole, "stream": a.stream} {
						got, err := ask(exactly(t.Context()), w.URL, route, text, false)
						if err != nil || got != want {
							t.Errorf("%s, %s: %+v (%v), and as a chat %+v", name, shape, got, err, want)
						}
						own, err := ask(t.Context(), w.URL, route, text+" For "+name+", "+shape+".", false) // nobody has asked it before
						if err != nil || own.text == "" || own.finish != "stop" && own.finish != "length" || own.input == 0 || own.output == 0 {
							t.Errorf("%s, %s: %+v (%v)", name, shape, own, err)
						}
					}
				}
			}
		})
		t.Run("tools in mode "+mode, func(t *testing.T) {
			for name, a := range apis {
				whole, err := a.whole(t.Context(), w.URL, route, "What is the weather in Paris?", true)
				if err != nil || !strings.HasPrefix(whole.tool, "get_weather{") || whole.finish != "tool_calls" {
					t.Errorf("%s: %+v, %v", name, whole, err)
				}
				stream, err := a.stream(t.Context(), w.URL, route, "What is the weather in Paris?", true)
				if err != nil || stream.tool != whole.tool || stream.finish != whole.finish {
					t.Errorf("%s: the stream %+v (%v), the whole %+v", name, stream, err, whole)
				}
			}
		})
	}
	t.Run("refusals", func(t *testing.T) { testRefusals(t, w) })
	t.Run("conversations", func(t *testing.T) { testConversations(t, w) })
	t.Run("clients that leave", func(t *testing.T) { testAborts(t, w) })
	t.Run("streams that break off", func(t *testing.T) { testBrokenStreams(t, w) })
}

func testRefusals(t *testing.T, w *world) {
	for name, a := range apis {
		for shape, ask := range map[string]func(context.Context, string, string, string, bool) (said, error){"whole": a.whole, "stream": a.stream} {
			_, err := ask(t.Context(), w.URL, "no-such-model", "hi", false)
			var theirs *anthropic.Error
			switch {
			case name == "messages" && (!errors.As(err, &theirs) || theirs.StatusCode != http.StatusNotFound || !strings.Contains(theirs.RawJSON(), "not_found_error")):
				t.Errorf("%s, %s: %v", name, shape, err)
			case name != "messages":
				checkRefusal(t, err, http.StatusNotFound, "model_not_found")
			}
		}
	}
	c := client(w.URL)
	p := responsesParams(routeDefault, "hi", false)
	p.PreviousResponseID = openai.String("resp_1")
	_, err := c.Responses.New(t.Context(), p)
	checkRefusal(t, err, http.StatusNotFound, "previous_response_not_found")
	var ours *openai.Error
	if !errors.As(err, &ours) || ours.Param != "previous_response_id" {
		t.Errorf("stored state: %v", err)
	}
	search := map[string]any{"type": "web_search"}
	_, err = c.Responses.New(t.Context(), responsesParams(routeDefault, "hi", false), option.WithJSONSet("tools", []any{search}), option.WithJSONSet("tool_choice", search))
	checkRefusal(t, err, http.StatusBadRequest, "unsupported_parameter")
}
