package app_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// silence is how long a raw connection may say nothing before the test takes it
// for idle: all that a gateway on the loopback would say has come by then.
const silence = 700 * time.Millisecond

// reply is one HTTP response read from a raw connection.
type rawReply struct {
	status int
	header http.Header
	body   string
}

// rawResult is all that a raw connection said.
type rawResult struct {
	replies []rawReply
	closed  bool // by the gateway
}

// raw sends bytes as they are and reads until the gateway closes or is silent.
func raw(t *testing.T, addr string, payload []byte) rawResult {
	t.Helper()
	var got rawResult
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return got
	}
	defer func() { _ = conn.Close() }()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
		_, _ = conn.Write(payload) // a gateway that has seen enough may close before the end
	}()
	in := bufio.NewReader(conn)
	wait := 10 * time.Second // for the first response
	for {
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		wait = silence
		if _, err := in.Peek(1); err != nil {
			got.closed = !isTimeout(err)
			break
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Errorf("what came is no HTTP response: %v", err)
			break
		}
		body, _ := io.ReadAll(resp.Body) // what there is
		got.replies = append(got.replies, rawReply{resp.StatusCode, resp.Header, string(body)})
	}
	_ = conn.Close()
	<-sent
	return got
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// request builds a POST of JSON with its true length; extra are whole header
// lines.
func request(path string, body []byte, extra ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: localhost\r\n", path)
	if !strings.Contains(strings.ToLower(strings.Join(extra, "\n")), "content-type:") {
		b.WriteString("Content-Type: application/json\r\n")
	}
	b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n")
	for _, line := range extra {
		b.WriteString(line + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// guarded is a gateway over two recording backends, to see what gets through.
type guarded struct {
	*apptest.Replica
	draft, target *recorder
}

// newGuarded starts one with the given live settings, names and values in turn.
func newGuarded(t *testing.T, settings ...string) *guarded {
	t.Helper()
	g := &guarded{draft: newRecorder(t), target: newRecorder(t)}
	store := miniredis.RunT(t)
	store.HSet("foregate:settings", "cache.mode", "off")
	for i := 0; i < len(settings); i += 2 {
		store.HSet("foregate:settings", settings[i], settings[i+1])
	}
	g.Replica = apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s"}
pools:
  small: {model: small, backends: [%q]}
  large: {model: large, backends: [%q]}
routes: [{model: llama-3, draft: small, target: large, same_tokenizer: true}]
passthrough: [/v1/embeddings, /v1/responses, /v1/messages, /tokenize, /detokenize, /v1/rerank, /v1/score]
drain: {delay: 0s, grace: 2s}
`, store.Addr(), g.draft.url, g.target.url))
	g.Ready(t)
	return g
}

// untouched checks that nothing reached a backend.
func (g *guarded) untouched(t *testing.T) {
	t.Helper()
	for _, r := range append(g.draft.all(), g.target.all()...) {
		t.Errorf("this reached a backend: %s %.200q %v", r.path, r.body, r.header)
	}
	g.draft.forget()
	g.target.forget()
}
