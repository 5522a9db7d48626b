package openai

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// metered has a meter read an answer, so many bytes at a time.
func metered(stream bool, answer string, step int) *Meter {
	m := NewMeter(stream)
	for len(answer) > 0 {
		n := min(step, len(answer))
		m.Take([]byte(answer[:n]))
		answer = answer[n:]
	}
	return m
}

func TestTheUsageOfEachAPIIsReadHoweverItsBytesAreCut(t *testing.T) {
	for name, c := range map[string]struct {
		stream bool
		answer string
		want   Usage
		pieces int
	}{
		"embeddings":   {answer: `{"object":"list","data":[{"embedding":[0.1,-2e-3,"}"],"usage":{"prompt_tokens":9}}],"usage":{"prompt_tokens":7,"total_tokens":7,"completion_tokens":0,"prompt_tokens_details":{"prompt_tokens":3}}}`, want: Usage{Prompt: 7}},
		"rerank":       {answer: `{"id":"x","usage":{"total_tokens":42},"results":[]}`, want: Usage{Prompt: 42}},
		"completion":   {answer: `{"choices":[{"text":"\"usage\":{\"prompt_tokens\":99}"}],"usage":{"prompt_tokens":5,"total_tokens":8,"completion_tokens":3}}`, want: Usage{Prompt: 5, Completion: 3}},
		"a response":   {answer: `{"output":[{"content":[{"text":"\\"}]}],"usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":8},"output_tokens":4,"total_tokens":15}}`, want: Usage{Prompt: 11, Completion: 4}},
		"a message":    {answer: `{"content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":3,"cache_read_input_tokens":8,"cache_creation_input_tokens":1,"output_tokens":2}}`, want: Usage{Prompt: 12, Completion: 2}},
		"negative":     {answer: `{"usage":{"prompt_tokens":-5,"completion_tokens":-1000000000000}}`},
		"no integers":  {answer: `{"usage":{"prompt_tokens":5.5,"completion_tokens":"7","total_tokens":1e3}}`},
		"absurd":       {answer: `{"usage":{"prompt_tokens":999999999999999999999999,"completion_tokens":1000000000000}}`, want: Usage{Prompt: maxCount, Completion: 1000000000000}},
		"elsewhere":    {answer: `{"x":{"usage":{"prompt_tokens":5}},"usage":[{"prompt_tokens":6}],"message":{"message":{"usage":{"prompt_tokens":7}}}}`},
		"an array":     {answer: `[{"usage":{"prompt_tokens":5}}]`},
		"not JSON":     {answer: `<html>"usage":{"prompt_tokens":5}</html>`},
		"null":         {answer: `{"usage":null,"prompt_tokens":5}`},
		"a long name":  {answer: `{"` + strings.Repeat("usage", 20) + `":{"prompt_tokens":5}}`},
		"cut":          {answer: `{"usage":{"prompt_tokens":5,"completion_tokens":3`, want: Usage{Prompt: 5}},
		"chat stream":  {stream: true, answer: "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"}}],\"usage\":null}\n\ndata: {\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n", want: Usage{Prompt: 5, Completion: 2}, pieces: 2},
		"CR LF, parts": {stream: true, answer: ": hello\r\nevent: x\r\ndata: {\"usage\":\r\ndata: {\"prompt_tokens\":\r\ndata:5}}\r\n\r\n", want: Usage{Prompt: 5}},
		"a response's stream": {stream: true, answer: "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n" +
			"event: response.output_text.delta\ndata: {\"delta\":\"hi\",\"type\":\"response.output_text.delta\"}\n\n" +
			"event: response.completed\ndata: {\"response\":{\"output\":[{\"usage\":{\"input_tokens\":99}}],\"usage\":{\"input_tokens\":11,\"output_tokens\":4}},\"type\":\"response.completed\"}\n\n", want: Usage{Prompt: 11, Completion: 4}, pieces: 1},
		"a message's stream": {stream: true, answer: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n" +
			"data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"a\"}}\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"b\"}}\n\n" +
			"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\n\n", want: Usage{Prompt: 25, Completion: 15}, pieces: 3},
		"a broken event": {stream: true, answer: "data: {\"usage\":{\"x\":[[[\n\ndata: {\"usage\":{\"prompt_tokens\":5}}\n\n", want: Usage{Prompt: 5}},
	} {
		for step := 1; step <= len(c.answer); step++ {
			m := metered(c.stream, c.answer, step)
			if got, reported := m.Usage(); got != c.want || reported != (c.want != Usage{}) || m.Pieces() != c.pieces || m.Bytes() != int64(len(c.answer)) {
				t.Errorf("%s, %d bytes at a time: %+v, told %v, %d pieces, %d bytes; want %+v, %d", name, step, got, reported, m.Pieces(), m.Bytes(), c.want, c.pieces)
				break
			}
		}
	}
}

func TestAMeterKeepsFewOfTheNamesOfADeepAnswer(t *testing.T) {
	part := []byte(`{"` + strings.Repeat("x", 500_000) + `":`)
	for _, within := range []string{"", `{"a":`, `[`} {
		m, kept := NewMeter(false), 0
		for range 100 {
			m.Take([]byte(within))
			m.Take(part)
			kept = max(kept, len(m.cur.dec.StackPointer()))
		}
		if kept > maxMetered {
			t.Errorf("inside of %q: %d bytes of names are kept", within, kept)
		}
	}
	deep := NewMeter(false)
	deep.Take([]byte(strings.Repeat(`{"a":`, 9000)))
	if !deep.ended {
		t.Error("it reads on, however deep the answer is")
	}
	text := NewMeter(false)
	text.Take([]byte(`{"a":["` + strings.Repeat("x", 500_000) + `"],"usage":{"prompt_tokens":7}}`))
	if u, _ := text.Usage(); u.Prompt != 7 {
		t.Errorf("a long text hides the usage: %+v", u)
	}
}

// FuzzMeter: how the bytes are cut changes nothing, no count is negative or beyond its bound, and
// where the text is a JSON object whose names are plain, encoding/json reads the same.
func FuzzMeter(f *testing.F) {
	f.Add(false, `{"usage":{"prompt_tokens":7,"completion_tokens":3}}`, uint8(3))
	f.Add(false, `{"message":{"usage":{"input_tokens":7}},"delta":[{}]}`, uint8(1))
	f.Add(true, "data: {\"usage\":{\"prompt_tokens\":5}}\r\n\r\ndata: [DONE]\n\n", uint8(2))
	f.Add(true, "data:{\"response\":{\"a\":\"\\\"}\",\"usage\":{\"input_tokens\":5}}}\n", uint8(1))
	f.Fuzz(func(t *testing.T, stream bool, answer string, step uint8) {
		whole, parts := metered(stream, answer, len(answer)+1), metered(stream, answer, int(step)+1)
		got, reported := whole.Usage()
		if again, _ := parts.Usage(); again != got || parts.Pieces() != whole.Pieces() {
			t.Fatalf("%+v and %d pieces, in parts %+v and %d", got, whole.Pieces(), again, parts.Pieces())
		}
		if got.Prompt < 0 || got.Completion < 0 || got.Prompt > 3*maxCount || got.Completion > maxCount || reported != (got != Usage{}) {
			t.Fatalf("%+v, told %v", got, reported)
		}
		if want, ok := promptTokens(answer); ok && !stream && got.Prompt != want {
			t.Fatalf("%d prompt tokens, want %d of %s", got.Prompt, want, answer)
		}
	})
}

// promptTokens is what encoding/json finds; ok is false where the two may differ: over names that
// are escaped, there twice, or of another API, and counts that are none.
func promptTokens(answer string) (n int, ok bool) {
	var plain map[string]any
	dec := json.NewDecoder(strings.NewReader(answer))
	dec.UseNumber()
	if err := dec.Decode(&plain); err != nil || dec.More() || strings.Contains(answer, `\`) {
		return 0, false
	}
	for _, name := range []string{"input_tokens", "total_tokens", "message", "response"} {
		if strings.Contains(answer, name) {
			return 0, false
		}
	}
	if strings.Count(answer, `"usage"`) > 1 || strings.Count(answer, `"prompt_tokens"`) > 1 {
		return 0, false
	}
	usage, _ := plain["usage"].(map[string]any)
	count, _ := usage["prompt_tokens"].(json.Number)
	n, err := strconv.Atoi(string(count))
	if err != nil || n < 0 {
		return 0, true
	}
	return min(n, maxCount), true
}
