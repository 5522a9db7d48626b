package messages

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

const minimal = `"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]`

func TestARequestBecomesAChatCompletion(t *testing.T) {
	const head = `{"max_tokens":9,"messages":[{"content":"hi","role":"user"}],"model":"m"`
	for body, want := range map[string]string{
		`{` + minimal + `}`:               head + `}`,
		`{` + minimal + `,"stream":true}`: head + `,"stream":true,"stream_options":{"include_usage":true}}`,
		`{` + minimal + `,"cache_control":{"type":"ephemeral"},"service_tier":"auto","container":null,"mcp_servers":[]}`: head + `}`,
		`{` + minimal + `,"output_config":{"format":{"type":"json_schema","schema":{"b": 1,"a":2}}}}`: head +
			`,"response_format":{"json_schema":{"name":"answer","schema":{"b":1,"a":2},"strict":true},"type":"json_schema"}}`,
		`{` + minimal + `,"stop_sequences":["a"],"metadata":{"user_id":"u"},"thinking":{"type":"disabled"}}`: head + `,"stop":["a"],"user":"u"}`,
		`{` + minimal + `,"tools":[{"name":"f","strict":true,"cache_control":{"type":"ephemeral"},"eager_input_streaming":true,"input_schema":{"b": 1.0}}],"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`: head +
			`,"parallel_tool_calls":false,"tool_choice":"required","tools":[{"function":{"name":"f","parameters":{"b":1.0},"strict":true},"type":"function"}]}`,
		`{"model":"m","max_tokens":1,"system":"s","messages":[{"role":"assistant","content":[{"type":"thinking"},{"type":"tool_use","id":"1","name":"f","input":{"x": 1e2}}]},` +
			`{"role":"user","content":[{"type":"text","text":"t"},{"type":"tool_result","tool_use_id":"1","content":"r"}]}]}`: `{"max_tokens":1,"messages":[{"content":"s","role":"system"},` +
			`{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"x\":1e2}","name":"f"},"id":"1","type":"function"}]},` +
			`{"content":"r","role":"tool","tool_call_id":"1"},{"content":"t","role":"user"}],"model":"m"}`,
	} {
		r, err := API{}.Translate([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if string(r.Chat) != want {
			t.Errorf("%s\n got %s\nwant %s", body, r.Chat, want)
		}
		if _, err := openai.Scan(openai.Chat, r.Chat, openai.DefaultLimits()); err != nil {
			t.Errorf("%s: the chat completion is refused: %v", body, err)
		}
	}
}

func TestABadBodyIsRefusedByItsField(t *testing.T) {
	for body, want := range map[string]string{
		`[]`: "", `{"model":"m"}`: "messages", `{` + minimal + `,"messages":[]}`: "messages",
		`{` + minimal + `,"temperature":1.5}`:                                                                                             "temperature",
		`{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"hi"}]}`:                                                        "max_tokens",
		`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"},{"role":"tool"}]}`:                                        "messages[1].role",
		`{` + minimal + `,"thinking":{"type":"deep"}}`:                                                                                    "thinking.type",
		`{` + minimal + `,"thinking":{"type":"enabled"}}`:                                                                                 "thinking.budget_tokens",
		`{` + minimal + `,"thinking":{"type":"enabled","budget_tokens":1024}}`:                                                            "thinking.budget_tokens", // of 9
		`{` + minimal + `,"thinking":{"type":"adaptive","display":"raw"}}`:                                                                "thinking.display",
		`{` + minimal + `,"output_config":{"effort":"most"}}`:                                                                             "output_config.effort",
		`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"search_result","title":"t"}]}]}`:                      "messages[0].content[0].content",
		`{` + minimal + `,"tools":[{"name":"f"}]}`:                                                                                        "tools[0].input_schema",
		`{` + minimal + `,"output_config":{"format":{"type":"json_object"}}}`:                                                             "output_config.format.type",
		`{` + minimal + `,"output_config":{"format":{"type":"json_schema"}}}`:                                                             "output_config.format.schema",
		`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"AAAA"}}]}]}`: "messages[0].content[0].source.media_type",
	} {
		_, err := API{}.Translate([]byte(body))
		refused, ok := errors.AsType[*openai.RequestError](err)
		if !ok || refused.Param != want {
			t.Errorf("%s: %v, want a refusal of %q", body, err, want)
		}
	}
}

func TestWhatOnlyAnEngineCanServeIsNamedWithItsReason(t *testing.T) {
	for more, want := range map[string]clientapi.EngineOnlyError{
		`"container":"c"`:    {Field: "container", Reason: clientapi.ReasonTool},
		`"mcp_servers":[{}]`: {Field: "mcp_servers", Reason: clientapi.ReasonTool},
		`"Stream":true`:      {Field: "Stream", Reason: clientapi.ReasonUnknown},
		`"":1`:               {Field: `""`, Reason: clientapi.ReasonUnknown},
		`"messages":[{"role":"user","content":"a","name":"b"}]`:                                                                       {Field: "messages[0].name", Reason: clientapi.ReasonUnknown},
		`"messages":[{"role":"user","content":[{"type":"container_upload"}]}]`:                                                        {Field: "messages[0].content[0].type", Reason: clientapi.ReasonNoChat},
		`"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url"}}]}]`:                                        {Field: "messages[0].content[0].source.type", Reason: clientapi.ReasonNoChat},
		`"thinking":{"type":"adaptive","depth":1}`:                                                                                    {Field: "thinking.depth", Reason: clientapi.ReasonUnknown},
		`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"{"}]`:                                               {Field: "messages[1].role", Reason: clientapi.ReasonPrefill},
		`"metadata":{"user_id":"u","team":"t"}`:                                                                                       {Field: "metadata.team", Reason: clientapi.ReasonUnknown},
		`"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"auto","names":["f"]}`:                                        {Field: "tool_choice.names", Reason: clientapi.ReasonUnknown},
		`"tools":[{"type":"bash_20250124","name":"bash"}]`:                                                                            {Field: "tools[0].type", Reason: clientapi.ReasonTool},
		`"tools":[{"type":"web_search_20250305","name":"w"}],"tool_choice":{"type":"any"}`:                                            {Field: "tools[0].type", Reason: clientapi.ReasonTool},
		`"tools":[{"type":"web_search_20250305","name":"w"},{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"w"}`: {Field: "tools[0].type", Reason: clientapi.ReasonTool},
		`"tools":[{"name":"f","input_schema":{},"cost":1}]`:                                                                           {Field: "tools[0].cost", Reason: clientapi.ReasonUnknown},
		`"output_config":{"depth":"low"}`:                                                                                             {Field: "output_config.depth", Reason: clientapi.ReasonUnknown},
		`"output_config":{"format":{"type":"json_schema","schema":{},"name":"n"}}`:                                                    {Field: "output_config.format.name", Reason: clientapi.ReasonUnknown},
	} {
		head := minimal
		if strings.HasPrefix(more, `"messages"`) {
			head = `"model":"m","max_tokens":9`
		}
		_, err := API{}.Translate([]byte(`{` + head + `,` + more + `}`))
		if e, ok := errors.AsType[*clientapi.EngineOnlyError](err); !ok || *e != want {
			t.Errorf("%s: %v, want %v", more, err, &want)
		}
	}
}

func TestInterleavedCallsAreBlocksInSequence(t *testing.T) {
	e := &encoder{id: "1"}
	var out []byte
	for _, p := range []clientapi.Part{
		{Model: "m", Text: "a"},
		{Calls: []clientapi.CallPart{{ID: "x", Name: "f", Arguments: "{"}, {Index: 1, ID: "y", Name: "g", Arguments: "{"}}},
		{Calls: []clientapi.CallPart{{Index: 1, Arguments: "}"}, {Arguments: "}"}}},
		{Finish: "tool_calls"}, {Usage: &clientapi.Usage{Prompt: 5, Cached: 2, Completion: 3}},
	} {
		out, _ = e.Part(out, &p)
	}
	out, _ = e.End(out)
	var got []string
	for frame := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n\n") {
		name, data, _ := strings.Cut(frame, "\ndata: ")
		if !json.Valid([]byte(data)) {
			t.Errorf("not JSON: %s", data)
		}
		got = append(got, strings.TrimPrefix(strings.TrimPrefix(name, "event: "), "content_block_")+";")
	}
	const want = "message_start; start; delta; stop; start; delta; delta; stop; start; delta; stop; message_delta; message_stop;" //nolint:dupword // events of one kind follow one another
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	if !strings.Contains(string(out), `"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":3,"output_tokens":3,"cache_read_input_tokens":2`) {
		t.Errorf("the end is %s", out)
	}
}

func TestAWholeAnswerHasItsBlocks(t *testing.T) {
	got, _ := (&encoder{id: "1"}).Whole(nil, &clientapi.Part{Model: "m", Text: "a", Reasoning: "r", Finish: "stop", Stop: "x"})
	const want = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"r","signature":"Zm9yZWdhdGU="},{"type":"text","text":"a"}],` +
		`"stop_reason":"stop_sequence","stop_sequence":"x","usage":{"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestACallWithoutAJSONObjectIsNoCall(t *testing.T) {
	const cut = `{"path": "/tmp/x"`
	for _, c := range []struct {
		name, finish string
		arguments    []string // of the calls
		want         string   // the input of the last call; "" is an error
	}{
		{"whole", "tool_calls", []string{` {"a": 1}`}, `{"a":1}`},
		{"no arguments", "tool_calls", []string{"{}", ""}, `{}`},
		{"white space", "tool_calls", []string{" \n"}, `{}`},
		{"broken", "tool_calls", []string{cut}, ""},
		{"an array", "tool_calls", []string{"[1]"}, ""},
		{"a string", "stop", []string{`"x"`}, ""},
		{"null", "tool_calls", []string{"null"}, ""},
		{"two objects", "tool_calls", []string{"{}{}"}, ""},
		{"cut by the limit", "length", []string{"{}", cut}, `{}`},
		{"broken before the one that the limit cut", "length", []string{cut, "{"}, ""},
		{"broken, and another behind it", "tool_calls", []string{`{"a":}`, "{}"}, ""},
	} {
		var calls []clientapi.CallPart
		e := &encoder{id: "1"}
		var stream []byte
		var streamErr error
		for i, a := range c.arguments {
			calls = append(calls, clientapi.CallPart{Index: i, ID: "c", Name: "f", Arguments: a})
			if streamErr == nil {
				stream, streamErr = e.Part(stream, &clientapi.Part{Calls: calls[i:]})
			}
		}
		if streamErr == nil {
			_, _ = e.Part(nil, &clientapi.Part{Finish: c.finish})
			stream, streamErr = e.End(stream)
		}
		if whole := strings.Contains(string(stream), "message_stop"); (streamErr == nil) != (c.want != "") || whole != (c.want != "") {
			t.Errorf("%s: the stream's error is %v, its end is there: %t", c.name, streamErr, whole)
		}
		got, err := (&encoder{id: "1"}).Whole(nil, &clientapi.Part{Calls: calls, Finish: c.finish})
		var answer struct {
			Content []struct{ Input json.RawMessage }
		}
		if err == nil {
			err = json.Unmarshal(got, &answer)
		}
		if n := len(answer.Content); (err == nil) != (c.want != "") || err == nil && string(answer.Content[n-1].Input) != c.want {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
	}
}

func TestWhatAStreamHoldsBackIsBounded(t *testing.T) {
	text := strings.Repeat("x", 100)
	for want, parts := range map[string][]clientapi.Part{
		"": {{Text: text}, {Text: text}, {Reasoning: text}}, // nothing is held back
		"an answer of more than 500 bytes, which must be kept until its end": {{Calls: []clientapi.CallPart{{Name: "f"}}}, {Text: text}, {Text: text}, {Text: text}},
	} {
		e := newEncoder("1", 500, false)
		var err error
		for i := range parts {
			_, err = e.Part(nil, &parts[i])
		}
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("%s, want %q", got, want)
		}
	}
}

func FuzzTranslate(f *testing.F) {
	f.Add([]byte(`{` + minimal + `}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if r, err := (API{}).Translate(body); err == nil && !json.Valid(r.Chat) {
			t.Errorf("%q becomes %q", body, r.Chat)
		}
	})
}

func TestARefusalHasTheAPIsTypeAndNamesItsField(t *testing.T) {
	for status, want := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 405: "invalid_request_error",
		408: "invalid_request_error", 411: "invalid_request_error", 413: "request_too_large", 415: "invalid_request_error", 421: "invalid_request_error",
		429: "rate_limit_error", 431: "invalid_request_error", 500: "api_error", 502: "api_error", 503: "overloaded_error", 504: "timeout_error",
	} {
		for message, field := range map[string]string{"It is wrong.": " (max_tokens)", "max_tokens is wrong.": ""} {
			got := string(API{}.ErrorBody(nil, status, openai.ErrorBody{Message: message, Param: "max_tokens"}, "r1"))
			if body := `{"type":"error","error":{"type":"` + want + `","message":"` + message + field + `"},"request_id":"r1"}`; got != body {
				t.Errorf("%d: %s, want %s", status, got, body)
			}
		}
	}
}
