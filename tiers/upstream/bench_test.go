package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

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

// bareEngine is an engine on bare sockets. It answers each request with the same bytes, and allocates nothing.
func bareEngine(b *testing.B, answer string) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerAll(conn, []byte(answer))
		}
	}()
	return "http://" + l.Addr().String()
}

// answerAll answers the requests of a connection until it ends. A request is at most 256 KiB.
func answerAll(conn net.Conn, answer []byte) {
	defer func() { _ = conn.Close() }()
	buf, n := make([]byte, 256<<10), 0
	for {
		m, err := conn.Read(buf[n:])
		if err != nil {
			return
		}
		n += m
		head := bytes.Index(buf[:n], []byte("\r\n\r\n"))
		at := bytes.Index(buf[:n], []byte("Content-Length: "))
		if head < 0 || at < 0 {
			continue
		}
		length := 0
		for _, d := range buf[at+len("Content-Length: ") : head+2] {
			if d == '\r' {
				break
			}
			length = 10*length + int(d-'0')
		}
		if n < head+4+length {
			continue
		}
		if n = 0; writeAll(conn, answer) != nil {
			return
		}
	}
}

func writeAll(conn net.Conn, b []byte) error {
	_, err := conn.Write(b)
	return err
}

// BenchmarkClient is one exchange over TCP. Its costs include those of the engine, a read and a write.
func BenchmarkClient(b *testing.B) {
	whole := strings.Replace(aWhole, "hi", strings.Repeat("word ", 150), 1)
	inOne := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(whole), whole)
	var stream strings.Builder
	stream.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, e := range append(slices.Repeat([]string{benchChunk}, 63), anEnd, openai.Done) {
		fmt.Fprintf(&stream, "%x\r\ndata: %s\n\n\r\n", len(e)+8, e)
	}
	stream.WriteString("0\r\n\r\n")
	for _, size := range []int{200, 1 << 10, 16 << 10, 128 << 10} {
		body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("a", size) + `"}]}`
		call := &engine.Forward{Path: "/v1/x", Body: []byte(body), Into: new(engine.Forwarded)}
		benchmarkClient(b, fmt.Sprintf("forward/%d", size), inOne, call)
	}
	benchmarkClient(b, "whole", inOne, relay(b, aPlain))
	benchmarkClient(b, "stream", stream.String(), relay(b, aStream))
}

func benchmarkClient(b *testing.B, name, answer string, call engine.Call) {
	b.Run(name, func(b *testing.B) {
		c := newClient(b, Options{})
		a := at(bareEngine(b, answer), call)
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		b.ReportAllocs()
		began := cpuTime(b)
		defer func() { b.ReportMetric(float64((cpuTime(b)-began).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op") }()
		for b.Loop() {
			s, err := c.Open(ctx, a)
			for err == nil {
				_, err = s.Next(engine.WantTokens)
			}
			if s.Close(); err != io.EOF {
				b.Fatal(err)
			}
		}
	})
}

// cpuTime is what the process has used, the system's part included.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
