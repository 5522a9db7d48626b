package app_test

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

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
