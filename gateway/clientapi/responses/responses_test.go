package responses

import (
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// recoded is a whole chat stream as an encoder writes it.
func recoded(frames []byte, e clientapi.Encoder) ([]byte, error) {
	out, ended, err := clientapi.Recode(nil, frames, e)
	if ended && err == nil {
		return e.End(out)
	}
	return out, err
}

func TestARequestBecomesAChatCompletion(t *testing.T) {
	for in, want := range map[string]string{
		`{"model":"m","input":"hi","tool_choice":"auto","tools":[]}`: `{"messages":[{"content":"hi","role":"user"}],"model":"m"}`,
		`{"model":"m","input":"hi"}`:                                 `{"messages":[{"content":"hi","role":"user"}],"model":"m"}`,
		`{"model":"m","instructions":"be","input":[{"role":"user","content":[{"type":"input_text","text":"a"}]}],"max_output_tokens":5,"stream":true}`:                                                                                                                                                                                              `{"max_tokens":5,"messages":[{"content":"be","role":"system"},{"content":"a","role":"user"}],"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
		`{"model":"m","input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call","call_id":"d","name":"g","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"1"}],"tools":[{"type":"function","name":"f","parameters":{"b":1,"a":2}}],"tool_choice":{"type":"function","name":"f"}}`: `{"messages":[{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"c","type":"function"},{"function":{"arguments":"{}","name":"g"},"id":"d","type":"function"}]},{"content":"1","role":"tool","tool_call_id":"c"}],"model":"m","tool_choice":{"function":{"name":"f"},"type":"function"},"tools":[{"function":{"name":"f","parameters":{"b":1,"a":2}},"type":"function"}]}`,
		`{"model":"m","input":"x","text":{"format":{"type":"json_schema","name":"n","schema":{"z":1,"a":2}}}}`:                                                                                                                                                                                                                                      `{"messages":[{"content":"x","role":"user"}],"model":"m","response_format":{"json_schema":{"name":"n","schema":{"z":1,"a":2}},"type":"json_schema"}}`,
	} {
		r, err := API{}.Translate([]byte(in))
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if string(r.Chat) != want {
			t.Errorf("%s:\n got %s\nwant %s", in, r.Chat, want)
		}
	}
}

func TestABadFieldIsNamed(t *testing.T) {
	for in, want := range map[string]string{
		`{"model":"m"}`:                                               "input",
		`{"input":"x","stream":1}`:                                    "stream",
		`{"input":"x","tool_choice":"required"}`:                      "tool_choice",
		`{"input":[{"role":"x"}]}`:                                    "input[0].role",
		`{"input":[{"role":"user","content":[{"type":"y"}]}]}`:        "input[0].content[0].type",
		`{"input":[{"type":"function_call_output","output":"1"}]}`:    "input[0].call_id",
		`{"input":"x","tools":[{"type":"function"}]}`:                 "tools[0].name",
		`{"input":"x","tools":[{"type":"function","name":1}]}`:        "tools[0].name",
		`{"input":"x","user":1}`:                                      "user",
		`{"input":"x","truncation":"half"}`:                           "truncation",
		`{"input":"x","include":["reasoning.encrypted_content","y"]}`: "include[1]",
		`{"input":"x","max_tool_calls":"many"}`:                       "max_tool_calls",
		`{"input":"x","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]},{"type":"function","name":"n__f"}]}`: "tools[1].name",
		`{"input":"x","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"g"}}`:                                "tool_choice.name",
		`{"input":"x","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"any","tools":[]}}`:              "tool_choice.mode",
	} {
		_, err := API{}.Translate([]byte(in))
		if e, ok := errors.AsType[*openai.RequestError](err); !ok || e.Param != want {
			t.Errorf("%s: %v, want a refusal of %s", in, err, want)
		}
	}
}

func TestWhatOnlyAnEngineCanServeIsNamedWithItsReason(t *testing.T) {
	for member, want := range map[string]clientapi.EngineOnlyError{
		`"store":true`:               {Field: "store", Reason: clientapi.ReasonState},
		`"previous_response_id":"r"`: {Field: "previous_response_id", Reason: clientapi.ReasonState},
		`"background":true`:          {Field: "background", Reason: clientapi.ReasonNoChat},
		`"inptu":1`:                  {Field: "inptu", Reason: clientapi.ReasonUnknown},
		`"n":2`:                      {Field: "n", Reason: clientapi.ReasonUnknown},
		`"stop":["x"]`:               {Field: "stop", Reason: clientapi.ReasonUnknown},
		`"top_logprobs":2`:           {Field: "top_logprobs", Reason: clientapi.ReasonNoChat},
		`"tools":[{"type":"function","name":"f","bogus":1}]`:                                          {Field: "tools[0].bogus", Reason: clientapi.ReasonUnknown},
		`"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f","x":1}`: {Field: "tool_choice.x", Reason: clientapi.ReasonUnknown},
		`"text":{"verbosity":"low","other":1}`:                                                        {Field: "text.other", Reason: clientapi.ReasonUnknown},
		`"text":{"format":{"type":"json_schema","name":"n","schema":{},"other":1}}`:                   {Field: "text.format.other", Reason: clientapi.ReasonUnknown},
		`"include":["message.output_text.logprobs"]`:                                                  {Field: "include", Reason: clientapi.ReasonNoChat},
		`"input":[{"type":"compaction","encrypted_content":"x"}]`:                                     {Field: "input[0].type", Reason: clientapi.ReasonNoChat},
		`"tools":[{"type":"telepathy"}]`:                                                              {Field: "tools[0].type", Reason: clientapi.ReasonTool},
		`"tools":[{"type":"web_search"}],"tool_choice":"required"`:                                    {Field: "tools[0].type", Reason: clientapi.ReasonTool},
		`"tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}`:                         {Field: "tool_choice.type", Reason: clientapi.ReasonTool},
		`"reasoning":{"summary":"auto","budget":1}`:                                                   {Field: "reasoning.budget", Reason: clientapi.ReasonUnknown},
		`"input":[{"role":"user","content":"x","bogus":1}]`:                                           {Field: "input[0].bogus", Reason: clientapi.ReasonUnknown},
		`"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"","bogus":1}]`:        {Field: "input[0].bogus", Reason: clientapi.ReasonUnknown},
		`"input":[{"id":"msg_1"}]`:                                                                    {Field: "input[0].id", Reason: clientapi.ReasonState},
		`"input":[{"type":"item_reference","id":"msg_1"}]`:                                            {Field: "input[0].id", Reason: clientapi.ReasonState},
	} {
		body := `{` + member + `}`
		if !strings.HasPrefix(member, `"input"`) {
			body = `{"input":"x",` + member + `}`
		}
		_, err := API{}.Translate([]byte(body))
		if e, ok := errors.AsType[*clientapi.EngineOnlyError](err); !ok || *e != want {
			t.Errorf("%s: %v, want %v", member, err, &want)
		}
	}
}

// TestTheItemsOfAnAnswerCanBeSentBack sends all members that OpenAI's clients know of.
func TestTheItemsOfAnAnswerCanBeSentBack(t *testing.T) {
	r, err := API{}.Translate([]byte(`{"model":"m","store":false,"background":false,"bogus":null,"input":[
		{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}],"status":"completed"},
		{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"s"}],"content":[{"type":"reasoning_text","text":"r"}],"encrypted_content":"e","status":null},
		{"type":"message","id":"msg_1","role":"assistant","status":"completed","phase":"commentary","content":[{"type":"output_text","text":"a","annotations":[],"logprobs":[]}]},
		{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{}","status":"completed","namespace":null,"parsed_arguments":{},"created_by":"x"},
		{"type":"function_call_output","id":"fo_1","call_id":"c","output":"1","status":"completed","name":"f"},
		{"role":"user","content":"x","phase":null}]}`))
	const want = `{"messages":[{"content":"hi","role":"user"},{"content":"a","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"c","type":"function"}]},` +
		`{"content":"1","role":"tool","tool_call_id":"c"},{"content":"x","role":"user"}],"model":"m"}`
	if err != nil || string(r.Chat) != want {
		t.Errorf("%v\n got %s\nwant %s", err, r.Chat, want)
	}
}

func TestTheSafetyIdentifierComesBeforeTheUser(t *testing.T) {
	for more, want := range map[string]string{`"user":"u"`: "u", `"safety_identifier":"s"`: "s", `"user":"u","safety_identifier":"s"`: "s"} {
		r, err := API{}.Translate([]byte(`{"model":"m","input":"x",` + more + `}`))
		if err != nil || !strings.HasSuffix(string(r.Chat), `,"user":"`+want+`"}`) {
			t.Errorf("%s: %s, %v", more, r.Chat, err)
		}
	}
}

func TestAStreamSaysWhatTheWholeAnswerSays(t *testing.T) {
	whole := `{"created":7,"model":"m","choices":[{"message":{"reasoning":"hm","content":"a<b","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}},{"id":"d","function":{"name":"g","arguments":"[1]"}}]},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	frames := []string{`{"created":7,"model":"m","choices":[{"delta":{"reasoning":"h"}}]}`, `{"choices":[{"delta":{"reasoning":"m","content":"a"}}]}`, `{"choices":[{"delta":{"content":"<b"}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}},{"index":1,"id":"d","function":{"name":"g","arguments":"[1"}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"]"}},{"index":0,"function":{"arguments":"}"}}]},"finish_reason":"length"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, `[DONE]`}
	r, err := API{}.Translate([]byte(`{"input":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := clientapi.ParsePart([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want, err := r.NewEncoder("1", 0).Whole(nil, p)
	if err != nil || !strings.Contains(string(want), `"reason":"max_output_tokens"`) {
		t.Fatalf("%s, %v", want, err)
	}
	stream, err := recoded([]byte("data: "+strings.Join(frames, "\n\ndata: ")+"\n\n"), r.NewEncoder("1", 0))
	if err != nil {
		t.Fatal(err)
	}
	_, last, _ := strings.Cut(string(stream), "event: response.incomplete\ndata: ")
	var event struct{ Response json.RawMessage }
	if err := json.Unmarshal([]byte(last), &event); err != nil {
		t.Fatalf("%v: %s", err, stream)
	}
	if string(event.Response) != string(want) {
		t.Errorf("stream %s\nwhole  %s", event.Response, want)
	}
}

func FuzzTranslate(f *testing.F) {
	f.Add([]byte(`{"input":[{"role":"user","content":"x"}],"tools":[null]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := API{}.Translate(body)
		if err == nil && !json.Valid(r.Chat) {
			t.Fatalf("%q", r.Chat)
		}
	})
}

func TestABrokenStreamHasAnErrorThatClientsSee(t *testing.T) {
	e := &encoder{id: "1"}
	_, data, _ := strings.Cut(string(e.Broken(nil, 502, openai.ErrorBody{Message: "gone", Code: "c"})), "data: ")
	var event struct {
		Type, Message, Code string
		Param               *string
		Error               struct{ Message string }
	}
	if err := json.Unmarshal([]byte(data), &event); err != nil || event.Param != nil || event.Type != "error" || event.Message != "gone" || event.Code != "c" || event.Error.Message != "gone" {
		t.Errorf("%s: %v", data, err)
	}
}

// TestAnAnswerIsWrittenOnce answers a request with long instructions, in one piece and as a stream.
func TestAnAnswerIsWrittenOnce(t *testing.T) {
	const size, most = 3 << 20, 10 // a stream holds them three times, and its buffer grows
	r, err := API{}.Translate([]byte(`{"input":"x","instructions":"` + strings.Repeat("word ", size/5) + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	part := clientapi.Part{Text: "a", Finish: "stop"}
	for name, c := range map[string]struct {
		write func(e clientapi.Encoder) ([]byte, error)
		most  uint64
	}{
		"whole": {func(e clientapi.Encoder) ([]byte, error) { return e.Whole(nil, &part) }, 3},
		"stream": {func(e clientapi.Encoder) ([]byte, error) {
			out, err := e.Part(nil, &part)
			if err != nil {
				return nil, err
			}
			return e.End(out)
		}, most},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := c.write(r.NewEncoder("1", 0))
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err != nil || took > c.most*size {
			t.Errorf("%s: %d bytes of an answer with %d of instructions take %d (%v)", name, len(out), size, took, err)
		}
	}
}

func TestAStreamIsKeptUpToItsBound(t *testing.T) {
	e := newEncoder("1", form{}, 1000)
	var err error
	parts := 0
	for ; err == nil && parts < 1000; parts++ {
		_, err = e.Part(nil, &clientapi.Part{Text: "0123456789"})
	}
	if err == nil || parts != 101 {
		t.Errorf("%d parts are kept: %v", parts, err)
	}
	for e, parts = newEncoder("1", form{}, 1<<20), 0; parts < 1<<13; parts++ { // items take memory, too
		if _, err = e.Part(nil, &clientapi.Part{Text: "a", Reasoning: "b"}); err != nil {
			return
		}
	}
	t.Errorf("%d items are kept", 2*parts)
}

func FuzzEncoder(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n"))
	f.Fuzz(func(t *testing.T, frames []byte) {
		out, err := recoded(frames, &encoder{id: "1"})
		if err != nil {
			return
		}
		for event := range strings.SplitSeq(string(out), "\n\n") {
			if _, data, ok := strings.Cut(event, "\ndata: "); (!ok || !json.Valid([]byte(data))) && event != "" {
				t.Fatalf("%q", event)
			}
		}
	})
}
