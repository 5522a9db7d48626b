package responses

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

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
		`{"model":"m"}`:                                            "input",
		`{"input":"x","stream":1}`:                                 "stream",
		`{"input":"x","tool_choice":"required"}`:                   "tool_choice",
		`{"input":"x","tools":[],"tool_choice":{"type":"any"}}`:    "tool_choice",
		`{"input":[{"role":"x"}]}`:                                 "input[0].role",
		`{"input":[{"role":"user","content":[{"type":"y"}]}]}`:     "input[0].content[0].type",
		`{"input":[{"type":"function_call_output","output":"1"}]}`: "input[0].call_id",
	} {
		_, err := API{}.Translate([]byte(in))
		if e, ok := errors.AsType[*openai.RequestError](err); !ok || e.Param != want {
			t.Errorf("%s: %v, want a refusal of %s", in, err, want)
		}
	}
}

func TestAStatefulFieldIsLeftToEngines(t *testing.T) {
	for member, want := range map[string]string{
		`"store":true`: "store", `"previous_response_id":"r"`: "previous_response_id", `"background":true`: "background", `"inptu":1`: "inptu",
		`"truncation":"auto"`: "truncation", `"tools":[{"type":"web_search"}]`: "tools[0].type", `"store":false`: "",
		`"text":{"verbosity":"low","other":1}`: "text.other", `"reasoning":{"summary":"auto","budget":1}`: "reasoning.budget",
	} {
		r, err := API{}.Translate([]byte(`{"input":"x",` + member + `}`))
		if err != nil || r.EngineOnly != want {
			t.Errorf("%s: %+v, %v", member, r, err)
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
	want, err := r.NewEncoder("1").Whole(nil, p)
	if err != nil || !strings.Contains(string(want), `"reason":"max_output_tokens"`) {
		t.Fatalf("%s, %v", want, err)
	}
	stream, err := clientapi.Recode(nil, []byte("data: "+strings.Join(frames, "\n\ndata: ")+"\n\n"), r.NewEncoder("1"))
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
		if err == nil && r.EngineOnly == "" && !json.Valid(r.Chat) {
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

func FuzzEncoder(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n"))
	f.Fuzz(func(t *testing.T, frames []byte) {
		out, err := clientapi.Recode(nil, frames, &encoder{id: "1"})
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
