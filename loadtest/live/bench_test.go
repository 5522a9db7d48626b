package live

import (
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest"
)

// BenchmarkStream reads the stream of an answer; divide by 200 for a token.
func BenchmarkStream(b *testing.B) {
	frame := `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"lab","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	text := strings.Repeat(frame, 200) + "data: [DONE]\n\n"
	now := func() time.Duration { return time.Second }
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		var a answer
		if err := a.readStream(strings.NewReader(text), now); err != nil || a.text.Len() != 1000 {
			b.Fatal(err, a.text.Len())
		}
	}
}

// BenchmarkBody makes the body of a request with 16 KiB of text.
func BenchmarkBody(b *testing.B) {
	q := &loadtest.Request{Stream: true, Messages: []loadtest.Message{{Role: "user", Content: strings.Repeat("some words in a line\n", 780)}}}
	b.ReportAllocs()
	for b.Loop() {
		_ = appendBody(make([]byte, 0, bodySize(q)), "lab", q)
	}
}
