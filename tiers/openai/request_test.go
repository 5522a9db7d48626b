package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func scanChat(t *testing.T, body string) *Request {
	t.Helper()
	r, err := Scan(Chat, []byte(body), DefaultLimits())
	if err != nil {
		t.Fatalf("Scan(%s): %v", body, err)
	}
	return r
}

func TestAChatRequestIsReadInOnePass(t *testing.T) {
	r := scanChat(t, `{"model":"llama-3","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"hi"}]}],
		"stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"max_completion_tokens":7,"stop":["\n\n","END"],
		"temperature":0.5,"n":1,"seed":3,"x_custom":{"a":[1,2]}}`)
	want := Request{
		Kind: Chat, Model: "llama-3", Stream: true, IncludeUsage: true, MaxTokens: 7, N: 1, Stop: []string{"\n\n", "END"},
		Temperature: 0.5, HasSeed: true, SinglePlain: true,
	}
	got := *r
	got.Body, got.members, got.system, got.first = nil, nil, Span{}, Span{}
	got.PromptBytes, got.PromptTokens = 0, 0
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if r.PromptTokens < 5 || r.PromptTokens > 20 {
		t.Errorf("prompt estimated at %d tokens", r.PromptTokens)
	}
}

func TestWhatIsWrongIsSaidWithItsPlace(t *testing.T) {
	for name, c := range map[string]struct {
		kind         Kind
		body         string
		param, code  string
		messageHolds string
	}{
		"a nested name twice":  {Chat, `{"model":"m","messages":[{"role":"user","role":"x"}]}`, "messages/0/role", "duplicate_key", "/messages/0/role"},
		"no model":             {Chat, `{"messages":[{"role":"user"}]}`, "model", "missing_required_parameter", "model"},
		"no messages":          {Chat, `{"model":"m"}`, "messages", "missing_required_parameter", "messages"},
		"an image":             {Chat, `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://169.254.169.254/"}}]}]}`, "messages[0].content[0].image_url.url", "unsupported_parameter", "at byte 115"},
		"a huge number":        {Chat, `{"model":"m","temperature":0.` + strings.Repeat("1", 60) + `}`, "temperature", "invalid_value", "between"},
		"a seed of a fraction": {Chat, `{"model":"m","seed":1.5}`, "seed", "invalid_type", "1.5"},
		"bad words of numbers": {Chat, `{"model":"m","bad_words":[1]}`, "bad_words", "invalid_type", "a string"},
		"a grammar of text":    {Chat, `{"model":"m","structured_outputs":"x"}`, "structured_outputs", "invalid_type", "an object"},
		"prompt_logprobs":      {Chat, `{"model":"m","prompt_logprobs":1}`, "prompt_logprobs", "unsupported_parameter", "not accepted"},
		"a chat template":      {Chat, `{"model":"m","chat_template":"{{x}}"}`, "chat_template", "unsupported_parameter", "not accepted"},
		"a prompt in a chat":   {Chat, `{"model":"m","prompt":"x"}`, "prompt", "unknown_parameter", "not a parameter"},
		"a prompt of objects":  {Completion, `{"model":"m","prompt":[{}]}`, "prompt", "invalid_type", "an object"},
		"too large a schema":   {Chat, `{"model":"m","response_format":{"x":"` + strings.Repeat("a", 300<<10) + `"}}`, "response_format", "invalid_value", "larger"},
	} {
		_, err := Scan(c.kind, []byte(c.body), DefaultLimits())
		var re *RequestError
		if !errors.As(err, &re) {
			t.Errorf("%s: error is %v", name, err)
			continue
		}
		if re.Status != http.StatusBadRequest || re.Param != c.param || re.Code != c.code || !strings.Contains(re.Message, c.messageHolds) {
			t.Errorf("%s: got %d %q %q %q, want param %q code %q and %q in the message", name, re.Status, re.Param, re.Code, re.Message, c.param, c.code, c.messageHolds)
		}
	}
}

func TestHarmlessValuesOfRefusedFieldsAreStripped(t *testing.T) {
	r := scanChat(t, `{"model":"m","messages":[{"role":"user","content":"x"}],"echo":false,"prompt_logprobs":null,"use_beam_search":false,"stop":null,"max_tokens":null}`)
	want := `{"model":"m","messages":[{"role":"user","content":"x"}],"stop":null,"max_tokens":null}`
	if got := string(r.Apply(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWhatBarsADraftIsSeen(t *testing.T) {
	base := `{"model":"m","messages":[{"role":"user","content":"x"}],`
	for field, seen := range map[string]func(*Request) bool{
		`"tools":[{"type":"function"}]`:                      func(r *Request) bool { return r.Tools },
		`"tools":[{"type":"function"}],"tool_choice":"none"`: func(r *Request) bool { return !r.Tools },
		`"response_format":{"type":"json_object"}`:           func(r *Request) bool { return r.Structured },
		`"response_format":{"type":"text"}`:                  func(r *Request) bool { return !r.Structured },
		`"logprobs":true`:                                    func(r *Request) bool { return r.Logprobs },
		`"frequency_penalty":0`:                              func(r *Request) bool { return !r.Penalties },
		`"frequency_penalty":0.1`:                            func(r *Request) bool { return r.Penalties },
		`"logit_bias":{"5":1}`:                               func(r *Request) bool { return r.Penalties },
		`"min_tokens":4`:                                     func(r *Request) bool { return r.Penalties },
		`"continue_final_message":true`:                      func(r *Request) bool { return r.Continues },
		`"add_generation_prompt":false`:                      func(r *Request) bool { return r.Continues },
		`"n":2`:                                              func(r *Request) bool { return r.N == 2 },
		`"structured_outputs":{"regex":"a+"}`:                func(r *Request) bool { return r.Structured },
		`"stop":"x","include_stop_str_in_output":true`:       func(r *Request) bool { return r.IncludeStop && len(r.Stop) == 1 },
	} {
		if r := scanChat(t, base+field+"}"); !seen(r) {
			t.Errorf("%s was not seen", field)
		}
	}
}

func TestPromptsOfIDsAreCountedExactly(t *testing.T) {
	for prompt, want := range map[string]int{`[1,2,3]`: 3, `[[1,2],[3,4,5]]`: 5} {
		r, err := Scan(Completion, []byte(`{"model":"m","prompt":`+prompt+`}`), DefaultLimits())
		if err != nil || r.PromptTokens != want || r.SinglePlain {
			t.Errorf("%s: %d tokens, single %v, error %v", prompt, r.PromptTokens, r.SinglePlain, err)
		}
	}
}

func TestEachPromptOfAListIsAnAnswer(t *testing.T) {
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`"abc",`, n), ",") + "]" }
	for members, want := range map[string]int{
		`"prompt":"abc"`: 1, `"prompt":"abc","n":3,"best_of":5`: 5, `"prompt":["abc"]`: 1, `"prompt":[1,2,3],"n":2`: 2, `"prompt":[[1],[2,3]],"n":2`: 4,
		`"prompt":` + list(128): 128, `"prompt":` + list(129): 0, `"n":2,"prompt":` + list(65): 0, `"prompt":` + list(65) + `,"best_of":2`: 0,
		`"prompt":["a","b",1]`: 0, `"prompt":[1,"a","b"]`: 0, `"prompt":[[1],2]`: 0, `"prompt":[[[1],[2]]]`: 0, `"prompt":[{}]`: 0, `"prompt":[null]`: 0,
	} {
		r, err := Scan(Completion, []byte(`{"model":"m",`+members+`}`), DefaultLimits())
		if refused := want == 0; (err != nil) != refused || err == nil && r.Answers() != want {
			t.Errorf("%.60s: %+v, %v", members, r, err)
		}
	}
	r, err := Scan(Completion, []byte(`{"model":"m","prompt":["abcdef","ab"]}`), DefaultLimits())
	if err != nil || r.LongestShare() != 0.75 || r.PromptBytes != 8 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestEditsAreSplicesThatLeaveTheRestUntouched(t *testing.T) {
	r := scanChat(t, `{ "messages" : [ {"role":"user","content":"a  b\u00e9"} ] , "model":"llama-3","priority":-9000000000000000000,
		"cache_salt":"x","stream":false,"unknown":  {"k": [1, 2]} }`)
	got := string(r.Apply(nil,
		Edit{"model", Quote("target")}, Edit{"stream", []byte("true")}, Edit{Name: "stop"}, Edit{"extra", []byte("1")}))
	want := `{"messages" : [ {"role":"user","content":"a  b\u00e9"} ],"unknown":  {"k": [1, 2]},"model":"target","stream":true,"extra":1}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAContinuationByTextAddsOneAssistantMessage(t *testing.T) {
	r := scanChat(t, `{"model":"m","messages":[{"role":"user","content":"x"} ]}`)
	got := string(r.Extended([]byte("so \"far\"\n")))
	want := `[{"role":"user","content":"x"} ,{"role":"assistant","content":"so \"far\"\n"}]`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPeekFindsTheModelWhereverItStands(t *testing.T) {
	body := []byte(`{"input":["x"],"model" : "llama-3","k":1}`)
	env, err := Peek("/v1/responses", body, DefaultLimits())
	if err != nil || env.Model != "llama-3" {
		t.Errorf("got %+v, %v", env, err)
	}
	if got, want := string(env.Apply(nil, SetText("model", "big"))), `{"input":["x"],"k":1,"model":"big"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzScan checks what every other part relies on: what the scan accepts, the
// standard library reads the same way, and an edited body is valid JSON that says
// what the edit says and keeps every other field.
func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"model":"llama-3","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":5,"stop":["a"]}`))
	f.Add([]byte(`{"model":"a","mod\u0065l":"b"}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"priority":1}`))
	f.Add([]byte(`{"Model":"m"}`))
	f.Add([]byte("{\"model\":\"\xff\"}"))
	f.Add([]byte(strings.Repeat(`{"a":`, 80)))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Scan(Chat, body, DefaultLimits())
		if err != nil {
			var re *RequestError
			if !errors.As(err, &re) || re.Status < 400 || re.Status > 499 || re.Message == "" {
				t.Fatalf("error %#v", err)
			}
			return
		}
		var std struct {
			Model  string `json:"model"`
			Stream bool   `json:"stream"`
		}
		if err := json.Unmarshal(body, &std); err != nil {
			t.Fatalf("the standard library refuses what the scan accepts: %v", err)
		}
		if std.Model != r.Model || std.Stream != r.Stream {
			t.Fatalf("read %q %v, the standard library %q %v", r.Model, r.Stream, std.Model, std.Stream)
		}
		var before, after map[string]json.RawMessage
		if err := json.Unmarshal(r.Apply(nil, Edit{"model", Quote("edited")}), &after); err != nil {
			t.Fatalf("the edited body is no JSON: %v", err)
		}
		if string(after["model"]) != `"edited"` {
			t.Fatalf("the edit was lost: %s", after["model"])
		}
		_ = json.Unmarshal(body, &before)
		for name, raw := range before {
			if name != "model" && LookupField(name).Verdict == FieldForwarded && string(after[name]) != string(raw) {
				t.Fatalf("field %q changed from %s to %s", name, raw, after[name])
			}
		}
	})
}

// BenchmarkRequest scans requests, and makes the digests for their keys in the cache.
func BenchmarkRequest(b *testing.B) {
	for _, size := range []int{200, 1 << 10, 128 << 10} {
		for name, text := range map[string]string{"text": "lorem ipsum ", "code": `a := \"größe\" // and so on to the end of the line\n`} {
			body := []byte(`{"model":"llama-3","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat(text, size/len(text)) + `"}]}`)
			var r *Request
			for part, do := range map[string]func() error{
				"scan":   func() (err error) { r, err = Scan(Chat, body, DefaultLimits()); return err },
				"digest": func() (err error) { _, err = r.Digest(); return err },
			} {
				b.Run(fmt.Sprintf("%s/%s/%dB", part, name, size), func(b *testing.B) {
					r, _ = Scan(Chat, body, DefaultLimits())
					b.SetBytes(int64(len(body)))
					b.ReportAllocs()
					for b.Loop() {
						if err := do(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
