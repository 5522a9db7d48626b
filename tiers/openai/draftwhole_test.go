package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// chatDraft is vLLM's answer to a draft that is not streamed, nulls included.
const chatDraft = `{"id":"chatcmpl-4f2c","object":"chat.completion","created":1795219200,"model":"qwen-small","choices":[{"index":0,` +
	`"message":{"role":"assistant","content":"Par\u00eds.","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null,"tool_calls":[]},` +
	`"logprobs":{"content":[{"token":"Par","logprob":-0.25,"bytes":[80,97,114],"top_logprobs":[{"token":"Par","logprob":-0.25,"bytes":null},{"token":"The","logprob":-4.5,"bytes":null}]},` +
	`{"token":"ís.","logprob":-0.5,"bytes":[195,173,115,46],"top_logprobs":[]},{"token":"<|im_end|>","logprob":-0.01,"bytes":[],"top_logprobs":[{"token":"<|im_end|>","logprob":-0.01,"bytes":null}]}]},` +
	`"finish_reason":"stop","stop_reason":null,"token_ids":[59604,13,151645],"routed_experts":null}],"service_tier":null,"system_fingerprint":"vllm",` +
	`"usage":{"prompt_tokens":5,"total_tokens":8,"completion_tokens":3,"prompt_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":[151644,872,198,3838,30],"kv_transfer_params":null}`

// callDraft is a draft that calls two tools.
const callDraft = `{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[` +
	`{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Köln\"}"}},` +
	`{"id":"call_2","index":1,"function":{"arguments":"{}","name":"clock"}}]},"logprobs":null,"finish_reason":"tool_calls","stop_reason":null,"token_ids":[7]}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`

func TestAWholeChatDraftTellsAllThatIsJudged(t *testing.T) {
	a, err := ParseDraftAnswer([]byte(chatDraft), false)
	if err != nil {
		t.Fatal(err)
	}
	if a.Choices != 1 || string(a.Text) != "París." || a.Calls != nil || a.Finish != "stop" || a.Stop != nil || !a.Plain || a.Foreign || a.Fault != nil ||
		a.Usage != (Usage{Prompt: 5, Completion: 3}) || string(a.Model.Of([]byte(chatDraft))) != `"qwen-small"` {
		t.Errorf("got %+v", a)
	}
	if !cmp.Equal(a.IDs, []int32{59604, 13, 151645}) || !cmp.Equal(a.PromptIDs, []int32{151644, 872, 198, 3838, 30}) || !cmp.Equal(a.Logprobs, []float64{-0.25, -0.5, -0.01}) ||
		!cmp.Equal(a.TokenBytes, []int{3, 4, 0}) || !cmp.Equal(a.Top(0), []float64{-0.25, -4.5}) || len(a.Top(1)) != 0 || !cmp.Equal(a.Top(2), []float64{-0.01}) {
		t.Errorf("tokens %v of %v, logprobs %v, sizes %v, tops %v %v %v", a.IDs, a.PromptIDs, a.Logprobs, a.TokenBytes, a.Top(0), a.Top(1), a.Top(2))
	}
}

func TestADraftsCallsAreRead(t *testing.T) {
	a, err := ParseDraftAnswer([]byte(callDraft), false)
	if err != nil {
		t.Fatal(err)
	}
	want := []Call{
		{ID: "call_1", Type: "function", Name: "weather", Arguments: `{"city": "Köln"}`},
		{ID: "call_2", Type: "function", Name: "clock", Arguments: "{}"},
	}
	if !cmp.Equal(a.Calls, want) || !a.Plain || a.Foreign || a.Finish != "tool_calls" || len(a.Text) != 0 {
		t.Errorf("got %+v", a)
	}
}

func TestADraftThatIsMoreThanTextAndCallsIsNotPlain(t *testing.T) {
	for message, want := range map[string]struct{ plain, foreign bool }{
		`{"content":"a"}`:                         {true, false},
		`{"content":"a","reasoning":"hm"}`:        {false, false},
		`{"content":"a","reasoning_content":"h"}`: {false, false},
		`{"content":null,"refusal":"no"}`:         {false, false},
		`{"content":[{"type":"text"}]}`:           {false, false},
		`{"content":"a","function_call":{"a":1}}`: {false, false},
		`{"tool_calls":{"a":1}}`:                  {false, false},
		`{"tool_calls":[1]}`:                      {false, false},
		`{"tool_calls":[{"id":"1"}]}`:             {false, false},
		`{"tool_calls":[{"id":"1","type":"custom","function":{"name":"f","arguments":"{}"}}]}`:                                       {false, false},
		`{"tool_calls":[{"id":"1","function":{"name":"f","arguments":{}}}]}`:                                                         {false, false},
		`{"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}","x":1}}]}`:                                                 {false, false},
		`{"tool_calls":[{"id":"1","function":[]}]}`:                                                                                  {false, false},
		`{"tool_calls":[` + strings.Repeat(`{"id":"1","function":{"name":"f"}},`, maxCalls) + `{"id":"1","function":{"name":"f"}}]}`: {false, false},
	} {
		a, err := ParseDraftAnswer([]byte(`{"choices":[{"message":`+message+`}]}`), false)
		if err != nil || a.Plain != want.plain || a.Foreign != want.foreign {
			t.Errorf("%.80s: plain %t, foreign %t, %v", message, a.Plain, a.Foreign, err)
		}
	}
	a, err := ParseDraftAnswer([]byte(`{"choices":[{"message":{"content":"a"}}],"citations":["x"]}`), false)
	if err != nil || !a.Plain || !a.Foreign {
		t.Errorf("citations: %+v, %v", a, err)
	}
	if a, err = ParseDraftAnswer([]byte(`{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}`), false); err != nil || a.Plain || a.Choices != 2 {
		t.Errorf("two choices: %+v, %v", a, err)
	}
}

func TestADraftThatCouldBeReadInTwoWaysIsRefused(t *testing.T) {
	for _, body := range []string{
		`{"choices":[{"message":{"content":"a","content":"b"}}]}`,
		`{"choices":[{"message":{"content":"a"},"message":{"content":"b"}}]}`,
		`{"choices":[{"message":{"content":"a"}}],"choices":[]}`,
		`{"choices":[{"message":{"content":"a"},"text":"b"}]}`,
		`{"choices":[{"delta":{"content":"a"},"message":{"content":"b"}}]}`,
		`{"choices":[{"message":{"tool_calls":[{"id":"1","id":"2"}]}}]}`,
		`{"choices":[{"finish_reason":"stop"}]}`,
		`{"choices":[{"message":{"content":"a"},"logprobs":{"content":[{"token":"a"}]}}]}`,
		`{"choices":[{"message":{"content":"a"}}]} {}`,
		`{"choices":[{"message":"a"}]}`,
		`[]`, ``, `{"choices":[`,
	} {
		if a, err := ParseDraftAnswer([]byte(body), false); err == nil {
			t.Errorf("%s: %+v", body, a)
		}
	}
	a, err := ParseDraftAnswer([]byte(`{"error":{"message":"m","code":500}}`), false)
	if err != nil || a.Fault == nil || a.Fault.Status != 500 || a.Choices != 0 {
		t.Errorf("an error: %+v, %v", a, err)
	}
}

// framed is what an assembler makes of a draft that was written for the client, as a
// body or as a stream.
func framed(t *testing.T, a *DraftAnswer, kind Kind, stream bool) *Whole {
	t.Helper()
	f, out := NewFramer(kind, "x", "m", 1), NewAssembler(kind, 1<<20)
	if !stream {
		out.Body(f.Whole(nil, a.Whole(kind), nil))
	} else {
		events := NewEventReader(bytes.NewReader(f.WholeStream(nil, a.Whole(kind), nil, true)), 1<<20)
		for data, err := events.Next(); string(data) != Done; data, err = events.Next() {
			if err != nil {
				t.Fatal(err)
			}
			out.Chunk(data)
		}
		out.End(Ending{})
	}
	w, err := out.Whole()
	if err != nil {
		t.Fatalf("as a stream %t: %v", stream, err)
	}
	return w
}

func TestAKeptDraftReachesTheClientInEitherForm(t *testing.T) {
	for _, body := range []string{chatDraft, callDraft} {
		a, err := ParseDraftAnswer([]byte(body), false)
		if err != nil {
			t.Fatal(err)
		}
		for _, stream := range []bool{false, true} {
			w := framed(t, &a, Chat, stream)
			if c := w.Choices[0]; string(c.Text) != string(a.Text) || !cmp.Equal(c.Calls, a.Calls) || c.Finish != a.Finish || w.Usage != a.Usage {
				t.Errorf("as a stream %t: %+v of %+v", stream, w, a)
			}
		}
	}
}

// FuzzDraftAnswer: no body makes the parser panic; what it takes has alternatives for each
// logprob, reads as ParseAnswer reads it where it is plain, and can then be written for a client. The
// body is as long as before, and JSON: nulls and counts that cannot be are written over.
func FuzzDraftAnswer(f *testing.F) {
	for _, body := range []string{
		chatDraft, callDraft, chatChunk, `{"error":"x"}`, `{"choices":[{"text":"a","logprobs":{"token_logprobs":[-1],"top_logprobs":[{}]},"finish_reason":"length","stop_reason":7}]}`,
		`{"choices":[{"message":{"content":"a"}},{"message":1}]}`, strings.Replace(llamaChunk(3), `"delta"`, `"message"`, 1),
		`{"choices":null,"usage":{"prompt_tokens":-5}}`, strings.Replace(callDraft, `"index":1,`, `"index":1111111,`, 1),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		was := bytes.Clone(body)
		a, err := ParseDraftAnswer(body, bytes.Contains(body, []byte(`"id":`)))
		if err != nil {
			return
		}
		whole, err := ParseAnswer(body)
		if a.Choices <= 1 && a.Plain && (err != nil || whole.Choices != a.Choices || whole.Model != a.Model || whole.Close != a.Close || whole.Usage != a.Usage) {
			t.Fatalf("%s is %+v, and %+v, %v", body, a, whole, err)
		}
		if len(body) != len(was) || !json.Valid(body) {
			t.Fatalf("%s became %s", was, body)
		}
		for i := range a.Logprobs {
			a.Top(i)
		}
		if !json.Valid(NewFramer(Chat, "x", "m", 1).Whole(nil, a.Whole(Chat), nil)) {
			t.Fatalf("%s is written as no JSON", body)
		}
		for i := range body {
			body[i] = ' '
		}
		if a.Plain && !a.Foreign && a.Finish == "stop" && len(a.Calls) == 0 {
			for _, kind := range []Kind{Chat, Completion} {
				if w := framed(t, &a, kind, true); !bytes.Equal(w.Choices[0].Text, a.Text) {
					t.Fatalf("%s is written as %+v", was, w)
				}
			}
		}
	})
}

// llamaChunk is a chunk with a token and its id as llama.cpp writes them.
func llamaChunk(id int) string {
	return fmt.Sprintf(`{"model":"m","choices":[{"finish_reason":null,"index":0,"delta":{"content":" a%d"},"logprobs":{"content":[{"id":%d,"token":" a","bytes":[32,97],"logprob":-0.5,"top_logprobs":[`+
		`{"id":%d,"token":" a","bytes":[32,97],"logprob":-0.5},{"id":%d,"token":"b","bytes":[98],"logprob":-1.5}]}]}}],"created":1,"id":"c"}`, id, id, id, id+7)
}

func TestIDsInLogprobsAreReadFromEachChunk(t *testing.T) {
	p := ChunkParser{Judged: true, LogprobIDs: true}
	for _, id := range []int{1, 2, 33, 151645, 4} {
		c, err := p.Parse([]byte(llamaChunk(id)))
		if err != nil || !slices.Equal(c.IDs, []int32{int32(id)}) || len(c.Logprobs) != 1 || len(c.Top(0)) != 2 || c.Foreign {
			t.Errorf("%d: ids %v, logprobs %v, %v", id, c.IDs, c.Logprobs, err)
		}
	}
	for _, wrong := range []string{`1.5`, `1e3`, `99999999999`} {
		if _, err := p.Parse([]byte(strings.Replace(llamaChunk(1), `"id":1,`, `"id":`+wrong+`,`, 1))); err == nil {
			t.Errorf("%s is taken for an id", wrong)
		}
	}
	both := strings.Replace(llamaChunk(5), `"index":0`, `"index":0,"token_ids":[5]`, 1)
	if c, err := p.Parse([]byte(both)); err != nil || !slices.Equal(c.IDs, []int32{5}) {
		t.Errorf("ids %v, %v", c.IDs, err)
	}
}
