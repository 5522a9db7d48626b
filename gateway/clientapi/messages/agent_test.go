package messages

import (
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// translated is a request as the gateway answers it: Peek first, and what is said of thinking in the end.
func translated(t *testing.T, body string, thinks bool) *clientapi.Request {
	t.Helper()
	if _, err := openai.Peek("/v1/messages", []byte(body), openai.DefaultLimits()); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	r, err := API{}.Translate([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	r.TellThinking(thinks)
	if _, err := openai.Scan(openai.Chat, r.Chat, openai.DefaultLimits()); err != nil {
		t.Errorf("%s: the chat completion is refused: %v", body, err)
	}
	return r
}

func TestThinkingReachesTargetsThatThinkAndIsDroppedForOthers(t *testing.T) {
	const head = `"model":"m","max_tokens":40000,"messages":[{"role":"user","content":"hi"}]`
	for more, want := range map[string]struct {
		chat    string   // at the end, where the target thinks
		dropped []string // where it does not
	}{
		`"stream":false`:                 {},
		`"thinking":{"type":"adaptive"}`: {"", []string{"thinking"}},
		`"thinking":{"type":"adaptive","display":"omitted"},"output_config":{"effort":"max"}`: {`,"reasoning_effort":"high"`, []string{"output_config.effort", "thinking"}},
		`"thinking":{"type":"disabled"},"output_config":{"effort":"high"}`:                    {`,"chat_template_kwargs":{"enable_thinking":false}`, []string{"output_config.effort", "thinking"}},
		`"thinking":{"type":"enabled","budget_tokens":5000}`: {
			`,"chat_template_kwargs":{"enable_thinking":true},"reasoning_effort":"medium","thinking_budget_tokens":5000`, []string{"thinking"},
		},
		`"output_config":{"effort":"low"}`: {`,"reasoning_effort":"low"`, []string{"output_config.effort"}},
	} {
		const chat = `{"max_tokens":40000,"messages":[{"content":"hi","role":"user"}],"model":"m"`
		if r := translated(t, `{`+head+`,`+more+`}`, true); string(r.Chat) != chat+want.chat+`}` || len(r.Dropped) > 0 {
			t.Errorf("%s, and the target thinks: %s, dropped %q", more, r.Chat, r.Dropped)
		}
		if r := translated(t, `{`+head+`,`+more+`}`, false); string(r.Chat) != chat+`}` || !slices.Equal(r.Dropped, want.dropped) {
			t.Errorf("%s, and the target does not think: %s, dropped %q, want %q", more, r.Chat, r.Dropped, want.dropped)
		}
	}
}

func TestWhatOnlyTunesTheProviderIsDroppedWithANote(t *testing.T) {
	r := translated(t, `{"model":"m","max_tokens":9,"speed":"fast","betas":["b"],"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},`+
		`"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=1; cch=2;"},{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],`+
		`"tools":[{"type":"web_search_20250305","name":"w"},{"name":"f","defer_loading":true,"input_examples":[{}],"input_schema":{}}],"tool_choice":{"type":"tool","name":"f"},`+
		`"messages":[{"role":"user","content":"a"},{"role":"system","content":[{"type":"text","text":"b"},{"type":"tool_addition","tool":{"type":"tool_reference","tool_name":"f"}}]},`+
		`{"role":"system","content":"c"},{"role":"user","content":"d"}]}`, false)
	const chat = `{"max_tokens":9,"messages":[{"content":"s","role":"system"},{"content":"a","role":"user"},{"content":"b","role":"system"},{"content":"c","role":"system"},{"content":"d","role":"user"}],` +
		`"model":"m","tool_choice":{"function":{"name":"f"},"type":"function"},"tools":[{"function":{"name":"f","parameters":{}},"type":"function"}]}`
	if string(r.Chat) != chat {
		t.Errorf("got  %s\nwant %s", r.Chat, chat)
	}
	want := []string{
		"context_management", "speed", "betas", "system[0]", "messages[1].content[1].type tool_addition", "tools[0] web_search_20250305",
		"tools[1].defer_loading", "tools[1].input_examples",
	}
	if !slices.Equal(r.Dropped, want) {
		t.Errorf("dropped %q, want %q", r.Dropped, want)
	}
}

func TestTextsOfDocumentsAndSearchResultsAreText(t *testing.T) {
	r := translated(t, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[`+
		`{"type":"document","title":"T","context":"C","citations":{"enabled":true},"source":{"type":"text","media_type":"text/plain","data":"D"}},`+
		`{"type":"document","source":{"type":"content","content":[{"type":"text","text":"E"}]}},`+
		`{"type":"search_result","title":"U","source":"https://x/","content":[{"type":"text","text":"F"}]}]},`+
		`{"role":"assistant","content":[{"type":"thinking","thinking":"of another model","signature":"sig"},{"type":"redacted_thinking","data":"x"},{"type":"tool_use","id":"1","name":"f","input":{}}]},`+
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"tool_reference","tool_name":"g"}]}]}]}`, false)
	const chat = `{"max_tokens":9,"messages":[{"content":[{"text":"T","type":"text"},{"text":"C","type":"text"},{"text":"D","type":"text"},{"text":"E","type":"text"},` +
		`{"text":"U","type":"text"},{"text":"https://x/","type":"text"},{"text":"F","type":"text"}],"role":"user"},` +
		`{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"1","type":"function"}]},{"content":"g","role":"tool","tool_call_id":"1"}],"model":"m"}`
	if string(r.Chat) != chat {
		t.Errorf("got  %s\nwant %s", r.Chat, chat)
	}
	if want := []string{"messages[0].content[0].citations"}; !slices.Equal(r.Dropped, want) {
		t.Errorf("dropped %q, want %q", r.Dropped, want)
	}
}

func TestThoughtsAreBlocksWithASignature(t *testing.T) {
	for display, thought := range map[string]string{"summarized": "hm", "omitted": ""} {
		r := translated(t, `{`+minimal+`,"thinking":{"type":"adaptive","display":"`+display+`"}}`, true)
		e := r.NewEncoder("1", 0)
		out, _ := e.Part(nil, &clientapi.Part{Model: "m", Reasoning: "hm"})
		out, _ = e.Part(out, &clientapi.Part{Text: "a", Finish: "stop"})
		out, err := e.End(out)
		signed := `"delta":{"type":"signature_delta","signature":"Zm9yZWdhdGU="}}` + "\n\nevent: content_block_stop"
		if told := strings.Contains(string(out), `"thinking":"hm"`); err != nil || told != (thought != "") || strings.Count(string(out), signed) != 1 {
			t.Errorf("%s: %v\n%s", display, err, out)
		}
		whole, _ := r.NewEncoder("1", 0).Whole(nil, &clientapi.Part{Model: "m", Reasoning: "hm", Text: "a"})
		if want := `{"type":"thinking","thinking":"` + thought + `","signature":"Zm9yZWdhdGU="},{"type":"text","text":"a"}`; !strings.Contains(string(whole), want) {
			t.Errorf("%s: %s, want %s", display, whole, want)
		}
	}
}

func TestAPromptThatIsTooLongIsRefusedInWordsThatAgentsKnow(t *testing.T) {
	for message, want := range map[string]string{
		"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4200 in the messages, 800 in the completion).":                      "prompt is too long: 4200 tokens > 4096 maximum",
		"This model's maximum context length is 4096 tokens. However, your prompt contains at least 4097 input tokens, which exceeds this limit":                     "prompt is too long: 4097 tokens > 4096 maximum",
		"The decoder prompt (length 5000) is longer than the maximum model length of 4096.":                                                                          "prompt is too long: 5000 tokens > 4096 maximum",
		"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it":                                                                  "prompt is too long: 5000 tokens > 4096 maximum",
		"The input (5000 tokens) is longer than the model's context length (4096 tokens).":                                                                           "prompt is too long: 5000 tokens > 4096 maximum",
		"The prompt has 5000 tokens, and the backends of this model have memory for 4096.":                                                                           "prompt is too long: 5000 tokens > 4096 maximum",
		"'max_tokens' or 'max_completion_tokens' is too large: 800. This model's maximum context length is 4096 tokens and your request has 4000 input tokens":       "input length and `max_tokens` exceed context limit: 4000 + 800 > 4096, decrease input length or `max_tokens` and try again",
		"This model's maximum context length is 4096 tokens. However, you requested 4800 tokens (4000 in the messages, 800 in the completion).":                      "input length and `max_tokens` exceed context limit: 4000 + 800 > 4096, decrease input length or `max_tokens` and try again",
		"This model's maximum context length is 4096 tokens. However, you requested 800 output tokens and your prompt contains at least 4000 input tokens, together": "input length and `max_tokens` exceed context limit: 4000 + 800 > 4096, decrease input length or `max_tokens` and try again",
		"It does not fit.": "prompt is too long: It does not fit.",
	} {
		got := string(API{}.ErrorBody(nil, 400, openai.ErrorBody{Message: message, Code: "context_length_exceeded", Param: "messages"}, "r"))
		if !strings.Contains(got, `{"type":"invalid_request_error","message":"`+want+`","code"`) {
			t.Errorf("%s\n got %s\nwant %s", message, got, want)
		}
	}
	if got := errorType(529); got != "overloaded_error" {
		t.Errorf("529 is %s", got)
	}
}
