package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mergedOf merges the chunks of a stream of events.
func mergedOf(t *testing.T, stream string) []byte {
	t.Helper()
	m := NewMerger(1 << 20)
	r := NewEventReader(strings.NewReader(stream), 1<<20)
	for {
		data, err := r.Next()
		if err == io.EOF {
			return m.Whole()
		}
		if err != nil {
			t.Fatal(err)
		}
		if string(data) == Done {
			continue
		}
		if err := m.Add(data); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
	}
}

// TestARecordedStreamIsMergedIntoTheRecordedAnswer holds what llama.cpp said to the same requests in both ways.
func TestARecordedStreamIsMergedIntoTheRecordedAnswer(t *testing.T) {
	streams, err := filepath.Glob("testdata/merge/*.sse")
	if err != nil || len(streams) < 2 {
		t.Fatal(streams, err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, name := range streams {
		var got, want map[string]any
		merged := mergedOf(t, read(name))
		if err := json.Unmarshal(merged, &got); err != nil {
			t.Fatalf("%s: %v: %s", name, err, merged)
		}
		if err := json.Unmarshal([]byte(read(strings.TrimSuffix(name, "sse")+"json")), &want); err != nil {
			t.Fatal(err)
		}
		for _, answer := range []map[string]any{got, want} {
			for _, its := range []string{"id", "created"} {
				if answer[its] == nil {
					t.Errorf("%s: no %s", name, its)
				}
				delete(answer, its)
			}
			timings, _ := answer["timings"].(map[string]any)
			if timings["predicted_n"] == nil {
				t.Errorf("%s: no timings: %v", name, answer)
			}
			delete(answer, "timings")
			delete(answer["usage"].(map[string]any), "prompt_tokens_details")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestChunksAreMergedIntoOneAnswer(t *testing.T) {
	chunk := func(choices string) string {
		return `data: {"object":"chat.completion.chunk","choices":[` + choices + "]}\n\n"
	}
	for name, tc := range map[string]struct{ chunks, want string }{
		"text in pieces, and its end": {
			chunk(`{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}`) +
				chunk(`{"index":0,"delta":{"content":"a\"é"},"finish_reason":null}`) + chunk(`{"index":0,"delta":{"content":""}}`) + chunk(`{"index":0,"delta":{"content":"b\\n"}}`) +
				chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`) + "data: {\"choices\":[],\"usage\":{\"a\":1},\"timings\":{\"x\":1.50}}\n\n",
			`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a\"éb\\n"},"finish_reason":"stop"}],"usage":{"a":1},"timings":{"x":1.50}}`,
		},
		"calls in pieces": {
			chunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}}`) +
				chunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":null,"function":{"name":"","arguments":"{\"a\""}}]}}`) +
				chunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}`) +
				chunk(`{"index":0,"delta":{"tool_calls":[{"index":1,"id":"d","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}`),
			`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},` +
				`{"id":"d","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
		},
		"thoughts, and choices in any order": {
			chunk(`{"index":1,"delta":{"reasoning_content":"so "}}`) + chunk(`{"index":0,"delta":{"content":"x"}}`) + chunk(`{"delta":{"reasoning_content":"far"},"index":1}`),
			`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x"}},{"index":1,"message":{"role":"assistant","content":"","reasoning_content":"so far"}}]}`,
		},
		"logprobs are one list": {
			chunk(`{"index":0,"delta":{"content":"x"},"logprobs":{"content":[{"logprob":-0.10}]}}`) + chunk(`{"index":0,"delta":{"content":"y"},"logprobs":{"content":[{"logprob":-2,"top_logprobs":[{"index":9}]}]}}`),
			`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"xy"},"logprobs":{"content":[{"logprob":-0.10},{"logprob":-2,"top_logprobs":[{"index":9}]}]}}]}`,
		},
		"choices with an id each, behind white space": {
			`data:  {"id":"a","choices":[{"index":0,"delta":{"content":"x"}}]}` + "\n\n" + `data: {"id":"b","choices":[{"index":1,"delta":{"content":"y"}}]}` + "\n\n",
			`{"id":"b","choices":[{"index":0,"message":{"role":"assistant","content":"x"}},{"index":1,"message":{"role":"assistant","content":"y"}}]}`,
		},
		"a call beside a role of null": {
			chunk(`{"index":0,"delta":{"role":null,"content":null,"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}}`),
			`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}}]}`,
		},
		"nothing was said": {
			chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`),
			`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"stop"}]}`,
		},
	} {
		var got, want any
		merged := mergedOf(t, tc.chunks)
		if err := errors.Join(json.Unmarshal(merged, &got), json.Unmarshal([]byte(tc.want), &want)); err != nil {
			t.Fatalf("%s: %v: %s", name, err, merged)
		}
		if diff := cmp.Diff(want, got); diff != "" || !bytes.Contains(merged, []byte("0.10")) && strings.Contains(tc.want, "0.10") {
			t.Errorf("%s: %s\n%s", name, merged, diff)
		}
	}
}

// TestAMergedAnswerIsBounded: by what it keeps, also of empty parts.
func TestAMergedAnswerIsBounded(t *testing.T) {
	for name, chunk := range map[string]string{
		"text":    `{"choices":[{"index":0,"delta":{"content":"0123456789"}}]}`,
		"choices": `{"choices":[{"index":127}]}`,
		"lists":   `{"choices":[{"index":0,"logprobs":{"content":[1,2,3,4,5,6,7,8]}}]}`,
		"calls":   `{"choices":[{"index":0,"delta":{"tool_calls":[{}]}}]}`,
	} {
		m := NewMerger(4096)
		var err error
		for i := 0; i < 10_000 && err == nil; i++ {
			err = m.Add([]byte(chunk))
		}
		if !errors.Is(err, ErrTooLong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzMerger: what is merged is JSON, and one chunk that is whole says the same merged.
func FuzzMerger(f *testing.F) {
	f.Add([]byte(`{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{}]}}],"usage":{"x":[1]}}`), []byte(`{"choices":[{"delta":{"content":"b"}}]}`))
	f.Add([]byte(`{"choices":{"delta":[]}}`), []byte(`{"choices":[{"index":0,"text":"b","delta":null}]}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		m := NewMerger(1 << 16)
		for _, chunk := range [][]byte{a, b, a} {
			if !json.Valid(chunk) || m.Add(bytes.Clone(chunk)) != nil {
				return
			}
		}
		if whole := m.Whole(); !json.Valid(whole) {
			t.Fatalf("%s of %s and %s", whole, a, b)
		}
	})
}
