package app_test

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// straight is a replica, a client and an engine, whose client and engine are bare sockets that allocate
// nothing for a request: what a request allocates is the replica's.
type straight struct {
	conn    net.Conn
	request []byte
	answer  [8 << 10]byte
}

// straightQuestion is a chat of 200 bytes.
const straightQuestion = `{"model":"m","messages":[{"role":"system","content":"You are a helpful assistant."},` +
	`{"role":"user","content":"How many ships pass the lighthouse in a year, and how many at night?"}],"max_tokens":64}`

// straightAnswer is what vLLM answers to it, about as long.
const straightAnswer = `{"id":"chatcmpl-4f2c9a1b7d3e48f6a5c0b1d2e3f40516","object":"chat.completion","created":1795219200,"model":"t",` +
	`"choices":[{"index":0,"message":{"role":"assistant","content":"The lighthouse keeper counts the ships that pass.",` +
	`"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null},"logprobs":null,"finish_reason":"stop",` +
	`"stop_reason":null,"token_ids":null}],"service_tier":null,"system_fingerprint":"vllm-0.28.0-1a2b3c4d",` +
	`"usage":{"prompt_tokens":31,"total_tokens":41,"completion_tokens":10,"prompt_tokens_details":null},"prompt_logprobs":null}`

// straightRequest is a request over HTTP, with this field besides those of every client.
func straightRequest(field, body string) []byte {
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: OpenAI/Python 1.99.0\r\n"+
		"Accept: application/json\r\nAuthorization: Bearer sk-none\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
		field, len(body), body)
}

// startStraight starts a replica and an engine, and returns a connection to the replica.
func startStraight(t testing.TB) net.Conn {
	t.Helper()
	r := apptest.Serve(t, conf("pools: {t: {model: t, backends: ['http://%s']}}\nroutes: [{model: m, target: t}]\n", bareEngine(t)))
	r.Ready(t)
	conn, err := net.Dial("tcp", r.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask sends the request and reads its answer.
func (s *straight) ask(t testing.TB) {
	if _, err := s.conn.Write(s.request); err != nil {
		t.Fatal(err)
	}
	have := 0
	for {
		n, err := s.conn.Read(s.answer[have:])
		if err != nil {
			t.Fatalf("%v after %q", err, s.answer[:have])
		}
		have += n
		if size := messageSize(s.answer[:have]); size == have {
			break
		}
	}
	if !bytes.HasPrefix(s.answer[:have], []byte("HTTP/1.1 200 ")) {
		t.Fatalf("%s", s.answer[:have])
	}
}

// messageSize returns the bytes of the HTTP message that b begins with, −1 while its head is not whole.
func messageSize(b []byte) int {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return -1
	}
	head := b[:end+2]
	for _, name := range [...]string{"Content-Length: ", "content-length: "} {
		if _, after, ok := bytes.Cut(head, []byte(name)); ok {
			value, _, _ := bytes.Cut(after, []byte("\r\n"))
			size, _ := strconv.Atoi(string(value))
			return end + 4 + size
		}
	}
	return end + 4
}

// bareEngine starts an engine and returns its address.
func bareEngine(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go answerBarely(c)
		}
	}()
	return ln.Addr().String()
}

// answerBarely answers every POST with straightAnswer, or if it asks for a stream with the first token of one, and GET with the
// gauges and the one model of an engine.
func answerBarely(c net.Conn) {
	defer func() { _ = c.Close() }()
	whole := func(kind, body string) []byte {
		return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\ndate: Sat, 21 Nov 2026 04:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: %d\r\ncontent-type: %s\r\n\r\n%s",
			len(body), kind, body)
	}
	chat := whole("application/json", straightAnswer)
	models := whole("application/json", `{"object":"list","data":[{"id":"t","object":"model","owned_by":"vllm","root":"t","max_model_len":131072}]}`)
	gauges := whole("text/plain; version=0.0.4", "vllm:num_requests_running{model_name=\"t\"} 1\nvllm:num_requests_waiting{model_name=\"t\"} 0\n"+
		"vllm:kv_cache_usage_perc{model_name=\"t\"} 0.1\n")
	buf := make([]byte, 2<<10) // little: one that waits is measured
	have := 0
	for {
		if have == len(buf) {
			buf = slices.Grow(buf, len(buf))[:2*len(buf)]
		}
		n, err := c.Read(buf[have:])
		if err != nil {
			return
		}
		have += n
		if size := messageSize(buf[:have]); size != have {
			continue
		}
		reply := chat
		switch {
		case bytes.HasPrefix(buf[:have], []byte("GET /metrics")):
			reply = gauges
		case bytes.HasPrefix(buf[:have], []byte("GET ")):
			reply = models
		case bytes.Contains(buf[:have], []byte(`"stream":true`)):
			reply = firstToken
		}
		have = 0
		if _, err := c.Write(reply); err != nil {
			return
		}
	}
}

// maxStraightAllocs is how many allocations a straight answer makes at most, the HTTP server's and those of net/http's
// client for engines included: 138 were measured.
// A library of JSON that keeps the names of all members to find duplicates makes 28 of them.
const maxStraightAllocs = 180

func TestAStraightAnswerAllocatesLittle(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	s := &straight{conn: startStraight(t), request: straightRequest("Cache-Control: no-store\r\n", straightQuestion)}
	const requests = 2000
	least := math.Inf(1)
	for range 5 { // the replica's own loops allocate, too
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range requests {
			s.ask(t)
		}
		runtime.ReadMemStats(&after)
		least = min(least, float64(after.Mallocs-before.Mallocs)/requests)
	}
	t.Logf("%.1f allocations for a straight answer", least)
	if least > maxStraightAllocs {
		t.Errorf("a straight answer makes %.1f allocations, want at most %d", least, maxStraightAllocs)
	}
}

// firstToken is the beginning of a stream.
var firstToken = func() []byte {
	event := `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795219200,"model":"t","choices":[{"index":0,` +
		`"delta":{"role":"assistant","content":"The"},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n"
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"+
		"%x\r\n%s\r\n", len(event), event)
}()

// maxIdleStream is how many bytes a stream takes at most while it waits for its engine: on the heap and in stacks, the client's and
// the engine's ends included, which take some 6 KiB. 74 KiB were measured, of which net/http's buffers and goroutines take 26. The
// request's own goroutine needs less than a quarter of 32 KiB while it waits, so that the collector gives it 16.
const maxIdleStream = 80 << 10

func TestAStreamThatWaitsTakesLittleMemory(t *testing.T) {
	if raced {
		t.Skip("the race detector takes memory")
	}
	const streams = 300
	addr := startStraight(t).RemoteAddr().String()
	body := strings.Replace(straightQuestion, `{`, `{"stream":true,`, 1)
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	open := func() {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write(request); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		var got []byte
		for !bytes.Contains(got, []byte(`"The"`)) {
			var piece [1 << 10]byte
			n, err := conn.Read(piece[:])
			if got = append(got, piece[:n]...); err != nil {
				t.Fatalf("%v after %q", err, got)
			}
		}
	}
	open()
	before := memoryInUse()
	for range streams {
		open()
	}
	each := (memoryInUse() - before) / streams
	t.Logf("%d bytes for a stream", each)
	if each > maxIdleStream {
		t.Errorf("a stream that waits takes %d bytes, want at most %d", each, maxIdleStream)
	}
}

// memoryInUse returns the bytes of what lives on the heap, and of the stacks.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC() // what pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
