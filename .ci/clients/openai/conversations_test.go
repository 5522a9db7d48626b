package openai

import (
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/foregate/foregate/clients/programs"
)

// The turns of a conversation: instructions, a question, a call of a tool, its result, and a question.
const (
	instructions = "Be brief."
	firstTurn    = "What is the weather in Paris?"
	callID       = "c1"
	callName     = "get_weather"
	callInput    = `{"city":"Paris"}`
	callResult   = "Rain."
	lastTurn     = "And tomorrow?"
)

func chatConversation() openai.ChatCompletionNewParams {
	p := question(routeAlone, lastTurn)
	p.Messages = []openai.ChatCompletionMessageParamUnion{
		openai.SystemMessage(instructions), openai.UserMessage(firstTurn),
		{OfAssistant: &openai.ChatCompletionAssistantMessageParam{ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{
			{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{ID: callID, Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: callName, Arguments: callInput}}},
		}}},
		openai.ToolMessage(callResult, callID), openai.UserMessage(lastTurn),
	}
	return p
}

func responsesConversation() responses.ResponseNewParams {
	p := responsesParams(routeAlone, lastTurn, false)
	p.Instructions = openai.String(instructions)
	result := responses.ResponseInputItemParamOfFunctionCallOutput(callResult)
	result.OfFunctionCallOutput.CallID = openai.String(callID)
	p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		responses.ResponseInputItemParamOfMessage(firstTurn, responses.EasyInputMessageRoleUser),
		responses.ResponseInputItemParamOfFunctionCall(callInput, callID, callName),
		result,
		responses.ResponseInputItemParamOfMessage(lastTurn, responses.EasyInputMessageRoleUser),
	}}
	return p
}

func messagesConversation() anthropic.MessageNewParams {
	p := messagesParams(routeAlone, lastTurn, false)
	p.System = []anthropic.TextBlockParam{{Text: instructions, CacheControl: anthropic.NewCacheControlEphemeralParam()}}
	p.Messages = []anthropic.MessageParam{
		anthropic.NewUserMessage(anthropic.NewTextBlock(firstTurn)),
		anthropic.NewAssistantMessage(anthropic.NewToolUseBlock(callID, map[string]string{"city": "Paris"}, callName)),
		anthropic.NewUserMessage(anthropic.NewToolResultBlock(callID, callResult, false), anthropic.NewTextBlock(lastTurn)),
	}
	return p
}

// kept asks as a chat until the answer is kept, which is after the client has it.
func kept(t *testing.T, url string, p openai.ChatCompletionNewParams, opts ...option.RequestOption) (want said) {
	t.Helper()
	c := client(url)
	programs.Within(t, programs.StartWait, "the answer is kept", func() bool {
		var resp *http.Response
		got, err := c.Chat.Completions.New(t.Context(), p, append(opts, option.WithResponseInto(&resp))...)
		if err != nil {
			t.Fatal(err)
		}
		want = chatSaid(got)
		return resp.Header.Get("X-Cache") == "HIT"
	})
	return want
}

// testConversations asks the same conversation by each client. It is one to the gateway, too: after the first answer the
// cache has it for all, and each client is told that all of the prompt was cached.
func testConversations(t *testing.T, w *world) {
	ours, theirs := client(w.URL), anthropicClient(w.URL)
	asReceived := option.WithJSONSet("messages.2.content", nil) // as a client sends an answer back; the library's own type has no null
	want := kept(t, w.URL, chatConversation(), asReceived)
	check := func(name string, got said, cached int64, resp *http.Response) {
		t.Helper()
		if got != want || cached != want.input || resp.Header.Get("X-Cache") != "HIT" {
			t.Errorf("%s: %+v, %d tokens were cached, %s; as a chat %+v", name, got, cached, resp.Header.Get("X-Cache"), want)
		}
	}
	var resp *http.Response
	if chat, err := ours.Chat.Completions.New(t.Context(), chatConversation(), asReceived, option.WithResponseInto(&resp)); err != nil {
		t.Error(err)
	} else {
		check("chat", chatSaid(chat), chat.Usage.PromptTokensDetails.CachedTokens, resp)
	}
	if r, err := ours.Responses.New(t.Context(), responsesConversation(), option.WithResponseInto(&resp)); err != nil {
		t.Error(err)
	} else {
		check("responses", responsesSaid(r), r.Usage.InputTokensDetails.CachedTokens, resp)
	}
	if m, err := theirs.Messages.New(t.Context(), messagesConversation(), anthropicoption.WithResponseInto(&resp)); err != nil {
		t.Error(err)
	} else {
		check("messages", messagesSaid(m), m.Usage.CacheReadInputTokens, resp)
	}
	testStopSequence(t, w)
}

// testStopSequence has a word of an answer end it.
func testStopSequence(t *testing.T, w *world) {
	c := anthropicClient(w.URL)
	own, err := c.Messages.New(t.Context(), messagesConversation(), anthropicoption.WithHeader("Cache-Control", "no-store"))
	if err != nil {
		t.Fatal(err)
	}
	text := messagesSaid(own).text
	words := strings.Fields(text)
	stop := words[len(words)/2]
	before, _, _ := strings.Cut(text, stop)
	p := messagesConversation()
	p.StopSequences = []string{stop}
	whole, err := c.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var stream anthropic.Message
	s := c.Messages.NewStreaming(t.Context(), p)
	for s.Next() {
		if err := stream.Accumulate(s.Current()); err != nil {
			t.Error(err)
		}
	}
	for shape, m := range map[string]*anthropic.Message{"whole": whole, "stream": &stream} {
		if s.Err() != nil || m.StopReason != anthropic.StopReasonStopSequence || m.StopSequence != stop || messagesSaid(m).text != before {
			t.Errorf("%s: it ends by %s with %q, want %q: %q of %q (%v)", shape, m.StopReason, m.StopSequence, stop, messagesSaid(m).text, text, s.Err())
		}
	}
}
