package upstream

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// benchChunk is a chunk of one token as vLLM sends it to who asks for ids and five alternatives.
const benchChunk = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"big","choices":[{"index":0,"delta":{"content":" word"},"logprobs":{"content":[{"token":" word","logprob":-0.25,"bytes":[32,119,111,114,100],"top_logprobs":[` +
	`{"token":" word","logprob":-0.25,"bytes":[32]},{"token":" term","logprob":-2.5,"bytes":[32]},{"token":" name","logprob":-3.5,"bytes":[32]},{"token":" line","logprob":-4.5,"bytes":[32]},{"token":" text","logprob":-5,"bytes":[32]}]}]},"finish_reason":null,"token_ids":[1234]}]}`

// BenchmarkExchange is one exchange whose transport costs nothing: to open, read and close it.
func BenchmarkExchange(b *testing.B) {
	r := scan(b, openai.Chat, aStream)
	head := http.Header{"Content-Type": {"text/event-stream"}}
	for _, chunks := range []int{1, 1000} {
		stream := append(bytes.Repeat([]byte("data: "+benchChunk+"\n\n"), chunks-1), "data: "+anEnd+"\n\ndata: [DONE]\n\n"...)
		c := New(Options{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: head, ContentLength: -1, Body: io.NopCloser(bytes.NewReader(stream))}, nil
		})})
		for name, call := range map[string]engine.Call{
			"relay": &engine.Relay{Terms: engine.Terms{Model: "big"}, Request: r},
			"draft": &engine.Draft{Terms: engine.Terms{Model: "big"}, Request: r},
		} {
			b.Run(fmt.Sprintf("%s/chunks=%d", name, chunks), func(b *testing.B) {
				a := at("http://127.0.0.1:1", call)
				b.ReportAllocs()
				for b.Loop() {
					s, err := c.Open(b.Context(), a)
					if err != nil {
						b.Fatal(err)
					}
					for err == nil {
						s.Buffered() // as its readers ask before each
						_, err = s.Next(engine.WantTokens)
					}
					if s.Close(); err != io.EOF {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*chunks), "ns/chunk")
			})
		}
	}
}
