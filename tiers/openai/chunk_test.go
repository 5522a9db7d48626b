package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const chatChunk = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Par\u00e9"},` +
	`"logprobs":{"content":[{"token":"Par","logprob":-0.25,"bytes":[80],"top_logprobs":[{"token":"Par","logprob":-0.25,"bytes":[80]},{"token":"The","logprob":-2,"bytes":[84]}]}]},` +
	`"finish_reason":null,"token_ids":[59604]}],"prompt_token_ids":[1,2,3]}`

func TestAJudgedChunkTellsTextIDsAndLogprobs(t *testing.T) {
	p := ChunkParser{Judged: true}
	c, err := p.Parse([]byte(chatChunk))
	if err != nil {
		t.Fatal(err)
	}
	if string(c.Text) != "Paré" || !cmp.Equal(c.IDs, []int32{59604}) || !cmp.Equal(c.PromptIDs, []int32{1, 2, 3}) ||
		!cmp.Equal(c.Logprobs, []float64{-0.25}) || !cmp.Equal(c.Top(0), []float64{-0.25, -2}) || !c.Plain || c.Choices != 1 {
		t.Errorf("got %+v", c)
	}
	if string(c.Model.Of([]byte(chatChunk))) != `"m"` {
		t.Errorf("model at %v", c.Model)
	}
}

func TestACompletionChunkTellsTheSame(t *testing.T) {
	p := ChunkParser{Judged: true}
	c, err := p.Parse([]byte(`{"model":"m","choices":[{"index":0,"text":" a b","logprobs":{"text_offset":[0,2],"token_logprobs":[-0.5,-1],"tokens":[" a"," b"],` +
		`"top_logprobs":[{" a":-0.5," x":-3},{" b":-1}]},"finish_reason":"length","stop_reason":null,"token_ids":[5,6],"prompt_token_ids":[9]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if string(c.Text) != " a b" || string(c.Finish) != "length" || !cmp.Equal(c.Logprobs, []float64{-0.5, -1}) ||
		!cmp.Equal(c.Top(0), []float64{-0.5, -3}) || !cmp.Equal(c.Top(1), []float64{-1}) || !cmp.Equal(c.IDs, []int32{5, 6}) || !cmp.Equal(c.PromptIDs, []int32{9}) {
		t.Errorf("got %+v, tops %v %v", c, c.Top(0), c.Top(1))
	}
}

func TestUsageToolsAndErrorsAreSeen(t *testing.T) {
	var p ChunkParser
	c, err := p.Parse([]byte(`{"model":"m","choices":[],"usage":{"prompt_tokens":5,"total_tokens":8,"completion_tokens":3,"prompt_tokens_details":null}}`))
	if err != nil || !c.HasUsage || c.Usage != (Usage{Prompt: 5, Completion: 3}) || c.Choices != 0 {
		t.Errorf("usage: %+v, %v", c, err)
	}
	c, err = p.Parse([]byte(`{"choices":[{"delta":{"role":"assistant","tool_calls":[{"index":0}]},"finish_reason":null}],"usage":null}`))
	if err != nil || c.Plain || c.HasUsage {
		t.Errorf("tools: %+v, %v", c, err)
	}
	c, err = p.Parse([]byte(`{"error":{"message":"at 0x7f3a99887766 failed\u0007","type":"InternalServerError","param":null,"code":500}}`))
	if err != nil || c.Fault == nil || c.Fault.Status != 500 || c.Fault.Message != "at 0x… failed" {
		t.Errorf("fault: %+v, %v", c.Fault, err)
	}
}

func TestAChunkTellsOfWhatItsTextLeavesOut(t *testing.T) {
	for data, want := range map[string]bool{
		`{"id":"x","object":"o","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a"},"logprobs":null,"finish_reason":"stop","stop_reason":"x","token_ids":null}],"usage":{},"metrics":{},"prompt_text":null}`: false,
		`{"choices":[{"index":0,"text":"a","logprobs":{"tokens":[]}}]}`:           true,
		`{"choices":[{"index":0,"delta":{"content":"a"},"token_ids":[1]}]}`:       true,
		`{"choices":[{"index":0,"delta":{"content":"a"},"matched_stop":"x"}]}`:    false,
		`{"choices":[{"index":0,"delta":{"content":"a"},"matched_stop":[1]}]}`:    true,
		`{"choices":[{"index":0,"delta":{"content":"a"}}],"citations":[]}`:        true,
		`{"choices":[{"index":0,"delta":{"content":"a"}}],"prompt_token_ids":[]}`: true,
	} {
		var p ChunkParser
		c, err := p.Parse([]byte(data))
		if err != nil || c.Foreign != want {
			t.Errorf("%s: %t, %v", data, c.Foreign, err)
		}
	}
	p := ChunkParser{Judged: true}
	if c, err := p.Parse([]byte(chatChunk)); err != nil || c.Foreign {
		t.Errorf("what a judge asks for: %t, %v", c.Foreign, err)
	}
}

func TestFaultsAreReadInEveryShapeBackendsUse(t *testing.T) {
	for body, want := range map[string]Fault{
		`{"error":{"message":"m","type":"NotFoundError","param":"model","code":404}}`:     {Status: 404, Type: "NotFoundError", Message: "m", Param: "model"},
		`{"object":"error","message":"m","type":"NotFoundError","param":null,"code":404}`: {Status: 404, Type: "NotFoundError", Message: "m"},
		`{"error":"Unauthorized"}`: {Message: "Unauthorized"},
		`{"detail":"Not Found"}`:   {Message: "Not Found"},
		`{"error":{"message":"m","type":"server_error","code":"server_error"}}`:                                                                         {Type: "server_error", Message: "m", Code: "server_error"},
		`{"error":{"code":400,"message":"m","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}`:                                  {Status: 400, Type: "exceed_context_size_error", Message: "m", TooLong: true, Code: codeTooLong},
		`{"error":{"code":500,"type":"exceed_context_size_error","message":"m","n_ctx":256}}`:                                                           {Status: 400, Type: "exceed_context_size_error", Message: "m", TooLong: true, Code: codeTooLong},
		`{"error":{"code":501,"message":"m","type":"not_supported_error"}}`:                                                                             {Status: 501, Type: "not_supported_error", Message: "m"},
		`{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`:                                                                   {Status: 503, Type: "unavailable_error", Message: "Loading model"},
		`{"object":"error","message":"The input (9 tokens) is longer than the model's context length (4 tokens).","type":"BadRequestError","code":400}`: {Status: 400, Type: "BadRequestError", Message: "The input (9 tokens) is longer than the model's context length (4 tokens).", TooLong: true, Code: codeTooLong},
		`{"error":{"message":"This model's maximum context length is 4 tokens.","type":"x","code":null}}`:                                               {Status: 400, Type: "x", Message: "This model's maximum context length is 4 tokens.", TooLong: true, Code: codeTooLong},
		`{"error":{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}}`:                                                     {Status: 400, Type: "invalid_request_error", Message: "m", TooLong: true, Code: codeTooLong},
		`{"error":{"message":"model 'x' not found","type":"not_found_error","param":null,"code":null}}`:                                                 {Status: 404, Type: "not_found_error", Message: "model 'x' not found"},
		`{"error":{"message":"max_tokens=5000 cannot be greater than max_model_len=2048. Please request fewer output tokens. (parameter=max_tokens, value=5000)","type":"BadRequestError","param":"max_tokens","code":400}}`: {
			Status: 400, Type: "BadRequestError", Message: "max_tokens=5000 cannot be greater than max_model_len=2048. Please request fewer output tokens. (parameter=max_tokens, value=5000)", Param: "max_tokens", TooLong: true, Code: codeTooLong,
		},
		`{"error":{"message":"The decoder prompt (length 2049) is longer than the maximum model length of 2048.","type":"BadRequestError","code":400}}`: {
			Status: 400, Type: "BadRequestError", Message: "The decoder prompt (length 2049) is longer than the maximum model length of 2048.", TooLong: true, Code: codeTooLong,
		},
		`{"error":{"message":"The engine prompt length 2048 exceeds the max_model_len 2048. Please reduce prompt.","type":"invalid_request_error","param":"input","code":400}}`: {
			Status: 400, Type: "invalid_request_error", Message: "The engine prompt length 2048 exceeds the max_model_len 2048. Please reduce prompt.", Param: "input", TooLong: true, Code: codeTooLong,
		},
		`{"error":"the input length exceeds the context length"}`: {Status: 400, Message: "the input length exceeds the context length", TooLong: true, Code: codeTooLong},
		`{"error":{"message":"m","n_ctx":-1}}`:                    {Message: "m"}, `{"error":{"message":"m","n_ctx":99999999999}}`: {Message: "m"},
		`{"error":{"message":"m","type":"invalid_request_error","code":"invalid_image_format"}}`: {Status: 400, Type: "invalid_request_error", Message: "m", Code: "invalid_image_format"},
		`{"error":{"message":"m","code":"content_filter"}}`:                                      {Status: 400, Message: "m", Code: "content_filter"},
		`{"error":{"message":"m","code":"422"}}`:                                                 {Status: 422, Message: "m"},
		`{"error":{"message":"m","code":"a b"}}`:                                                 {Message: "m"},
		`{"error":{"message":"m","code":"` + strings.Repeat("a", 65) + `"}}`:                     {Message: "m"},
		`<html>`: {}, ``: {}, `[]`: {}, `{"error":`: {},
	} {
		if got := ParseFault([]byte(body)); *got != want {
			t.Errorf("%s: got %+v, want %+v", body, *got, want)
		}
	}
}

func TestWhatIsWrittenIsWhatVLLMWouldWrite(t *testing.T) {
	f := NewFramer(Chat, "x", "llama-3", 7)
	got := string(f.Role(nil)) + string(f.Text(nil, []byte("a\"b"))) +
		string(f.Finish(nil, nil, Ending{Finish: "stop", Usage: Usage{Prompt: 2, Completion: 3}, Extra: []byte(`{"tier":"draft"}`)}, true))
	head := `{"id":"chatcmpl-x","object":"chat.completion.chunk","created":7,"model":"llama-3","choices":[`
	want := `data: ` + head + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}` + "\n\n" +
		`data: ` + head + `{"index":0,"delta":{"content":"a\"b"},"logprobs":null,"finish_reason":null}]}` + "\n\n" +
		`data: ` + head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}` + "\n\n" +
		`data: ` + head + `],"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5},"foregate":{"tier":"draft"}}` + "\n\ndata: [DONE]\n\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	body := f.Body(nil, []byte("hi"), Ending{Finish: "length", Usage: Usage{Prompt: 1, Completion: 1}})
	if !json.Valid(body) || !strings.Contains(string(body), `"message":{"role":"assistant","content":"hi","refusal":null}`) {
		t.Errorf("body %s", body)
	}
}

func TestRewriteReplacesTheModelAndAddsTheExtraObject(t *testing.T) {
	in := []byte(`{"id":"1","model":"real","choices":[]}`)
	var p ChunkParser
	c, err := p.Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	got := string(Rewrite(nil, in, c.Model, c.Close, "llama-3", []byte(`{"tier":"target"}`)))
	if want := `{"id":"1","model":"llama-3","choices":[],"foregate":{"tier":"target"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzChunk: no bytes make the parser panic, and what it accepts is JSON whose
// rewriting is JSON again.
func FuzzChunk(f *testing.F) {
	f.Add([]byte(chatChunk))
	f.Add([]byte(`{"choices":[{"text":"x","logprobs":{"token_logprobs":[null],"top_logprobs":[null]},"finish_reason":"stop"}]}`))
	f.Add([]byte(`{"error":"x"}`))
	f.Add([]byte(`{"usage":{"prompt_tokens":1e9}}`))
	f.Add([]byte(`{"choices":null,"model":{"a":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := ChunkParser{Judged: true}
		c, err := p.Parse(data)
		if err != nil || c.Choices == 0 && !c.HasUsage { // such as [], a sign of life that nobody is sent
			return
		}
		for i := range c.Logprobs {
			if lp := c.Logprobs[i]; lp > 0 || lp < noLogprob {
				t.Fatalf("logprob %v", lp)
			}
			c.Top(i)
		}
		if out := Rewrite(nil, data, c.Model, c.Close, "m", nil); !json.Valid(out) {
			t.Fatalf("%s became %s", data, out)
		}
		fault := ParseFault(data)
		if fault.TooLong && fault.Status != 400 {
			t.Fatalf("%s: %+v", data, fault)
		}
	})
}

// FuzzRepeatedChunk: what a chunk says does not depend on the one before it, of which it may differ only in its text.
func FuzzRepeatedChunk(f *testing.F) {
	head, tail, _ := strings.Cut(vllmChunk(0, false), " woad")
	for _, text := range []string{"b", "größe", "a\",\"role\":\"x", "\\n", "\\", "\x01", "\xff", ""} {
		f.Add(head, "a", text, tail)
		f.Add(`{"choices":[{"text":"`, "", text, `"}],"model":"m"}`)
		f.Add(`{"choices":[null,{"delta":{"content":"`, "", text, `"},"text":"a"}]}`)
	}
	f.Fuzz(func(t *testing.T, head, one, other, tail string) {
		var p, fresh ChunkParser
		_, _ = p.Parse([]byte(head + one + tail))
		data, same := []byte(head+other+tail), []byte(head+other+tail)
		got, err := p.Parse(data)
		want, wantErr := fresh.Parse(same)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Chunk{}), cmpopts.EquateEmpty()); diff != "" || fmt.Sprint(err) != fmt.Sprint(wantErr) || !bytes.Equal(data, same) {
			t.Fatalf("%s after %q: %v, not %v: %s", data, one, err, wantErr, diff)
		}
	})
}

func TestAFrameIsNamedByWhatItTells(t *testing.T) {
	for frame, want := range map[string]string{
		`{"id":"a\u0062","created":7}`:       "ab 7",
		`{"created":1.5,"id":"ab"}`:          "ab 0",
		`{"created":"7","id":"ab","id":"c"}`: "c 0",
		`{"id":7,"created":7}`:               " 7",
		`{"choices":[]}`:                     " 0",
		`[]`:                                 " 0",
		``:                                   " 0",
	} {
		if id, created := Named([]byte(frame)); fmt.Sprint(id, " ", created) != want {
			t.Errorf("%s: %q %d, want %q", frame, id, created, want)
		}
	}
}
