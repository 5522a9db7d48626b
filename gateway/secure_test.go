package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/certtest"
)

// bothVersions runs a test over TLS with HTTP/1.1 and with HTTP/2.
func bothVersions(t *testing.T, test func(t *testing.T, http2 bool)) {
	t.Helper()
	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, http2) })
	}
}

// secureBench is a bench whose listeners speak TLS, and a client of one version of HTTP.
func secureBench(t *testing.T, backend string, http2 bool, adjust func(*Options)) *bench {
	t.Helper()
	ca := certtest.New(t)
	served := &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, certtest.Leaf{}).TLS(t)}, NextProtos: []string{"h2", "http/1.1"}}
	b := startBench(t, backend, func(o *Options) {
		o.TLS = func() *tls.Config { return served }
		o.AdminTLS = o.TLS
		if adjust != nil {
			adjust(o)
		}
	})
	b.url = "https://" + b.Addr().String()
	var versions http.Protocols
	versions.SetHTTP1(!http2)
	versions.SetHTTP2(http2)
	b.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool}, Protocols: &versions}, Timeout: time.Minute}
	t.Cleanup(b.client.CloseIdleConnections)
	return b
}

// pacedEngine is an engine whose test decides when it writes.
type pacedEngine struct {
	url     string
	tokens  chan string   // the next one to write
	arrived chan struct{} // a request
	left    chan struct{} // a request whose client has hung up
}

func newPacedEngine(t *testing.T) *pacedEngine {
	t.Helper()
	e := &pacedEngine{tokens: make(chan string), arrived: make(chan struct{}, 1000), left: make(chan struct{}, 1000)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server hear that the gateway leaves
		e.arrived <- struct{}{}
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case <-r.Context().Done():
				e.left <- struct{}{}
				return
			case token := <-e.tokens:
				if token == "" {
					_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
					return
				}
				_, _ = fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n", token)
				_ = http.NewResponseController(w).Flush()
			}
		}
	}))
	t.Cleanup(srv.Close)
	e.url = srv.URL
	return e
}

// expect waits until something has happened at the engine.
func (e *pacedEngine) expect(t *testing.T, what string, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(20 * time.Second):
		t.Fatalf("not within 20 s: %s", what)
	}
}

// stream is a streamed chat that a client reads.
type stream struct {
	resp  *http.Response
	lines *bufio.Scanner
}

const streamedChat = `{"model":"llama-3","stream":true,"messages":[{"role":"user","content":"hi"}]}`

// beginStream sends a streamed chat, and reads its answer up to the first token, which is a.
func (b *bench) beginStream(ctx context.Context, t *testing.T, e *pacedEngine) *stream {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/v1/chat/completions", strings.NewReader(streamedChat))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	var sent sync.WaitGroup
	sent.Go(func() { e.tokens <- "a" })
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	sent.Wait()
	s := &stream{resp, bufio.NewScanner(resp.Body)}
	if resp.StatusCode != http.StatusOK || !s.has(`"content":"a"`) {
		t.Fatalf("status %d, and no token", resp.StatusCode)
	}
	return s
}

// has reads on until a line has some text.
func (s *stream) has(text string) bool {
	for s.lines.Scan() {
		if strings.Contains(s.lines.Text(), text) {
			return true
		}
	}
	return false
}

func TestAHangUpOverTLSCancelsTheEnginesRequest(t *testing.T) {
	t.Parallel()
	bothVersions(t, func(t *testing.T, http2 bool) {
		e := newPacedEngine(t)
		b := secureBench(t, e.url, http2, nil)
		var reused bool
		trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		ctx, leave := context.WithCancel(t.Context())
		b.beginStream(ctx, t, e)
		leave()
		e.expect(t, "the engine's request is cancelled", e.left)
		soon(t, "nothing is under way", b.idle)

		s := b.beginStream(trace, t, e)
		if reused != http2 {
			t.Errorf("the next request reuses the connection: %t", reused)
		}
		e.tokens <- ""
		if !s.has("[DONE]") {
			t.Error("no end", s.lines.Err())
		}
	})
}

// TestAPauseBetweenTokensIsNoBlockedWrite has the engine pause for longer than a write may take: with HTTP/2, write
// deadlines end streams that write nothing, too.
func TestAPauseBetweenTokensIsNoBlockedWrite(t *testing.T) {
	t.Parallel()
	bothVersions(t, func(t *testing.T, http2 bool) {
		const wait = 50 * time.Millisecond
		e := newPacedEngine(t)
		b := secureBench(t, e.url, http2, func(o *Options) {
			o.Settings = setting(t, "timeout.write", wait.String())
		})
		s := b.beginStream(t.Context(), t, e)
		for range 3 {
			<-time.After(3 * wait)
			e.tokens <- "late"
			if !s.has("late") {
				t.Fatal("the stream ended in a pause:", s.lines.Err())
			}
		}
		e.tokens <- ""
		if !s.has("[DONE]") {
			t.Error("no end", s.lines.Err())
		}
	})
}

// TestAStreamThatIsNotReadIsResetAndItsConnectionGoesOn leaves an answer unread until the flow control of its stream holds
// the gateway up.
func TestAStreamThatIsNotReadIsResetAndItsConnectionGoesOn(t *testing.T) {
	t.Parallel()
	url, left := flood(t)
	b := secureBench(t, url, true, func(o *Options) {
		o.Settings = setting(t, "timeout.write", "100ms")
	})
	resp := b.ask(t, true, 10)
	select {
	case <-left:
	case <-time.After(20 * time.Second):
		t.Fatal("the engine goes on")
	}
	if text, err := rest(resp); err == nil {
		t.Errorf("the answer looks whole: %d bytes", len(text))
	}
	soon(t, "nothing is under way", b.idle)
	if !b.reuses(t) {
		t.Error("the connection was closed")
	}
}

// reuses reports whether a next request is sent on the connection of the last one.
func (b *bench) reuses(t *testing.T) (reused bool) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/v1/models", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if r := b.answered(t, req); r.status != http.StatusOK {
		t.Fatalf("GET /v1/models: %d", r.status)
	}
	return reused
}

// TestRefusedRequestsLeaveTheirConnectionToOthers sends what HTTP/1.1 connections are closed for.
func TestRefusedRequestsLeaveTheirConnectionToOthers(t *testing.T) {
	t.Parallel()
	b := secureBench(t, simulator(t).URL(), true, func(o *Options) {
		o.Limits = Limits{Body: 10 << 10}
		o.Settings = setting(t, "timeout.body", "100ms")
	})
	for name, c := range map[string]struct {
		body   io.Reader
		header string
		want   int
	}{
		"a body that is too long":                {strings.NewReader(strings.Repeat("x", 20<<10)), "", http.StatusRequestEntityTooLarge},
		"a body of unknown length, and too long": {io.MultiReader(strings.NewReader(strings.Repeat("x", 20<<10))), "", http.StatusRequestEntityTooLarge},
		"a body that does not come":              {silent(t), "", http.StatusRequestTimeout},
		"an id that is none":                     {http.NoBody, "a b", http.StatusBadRequest},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/chat/completions", c.body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if c.header != "" {
			req.Header.Set("X-Request-Id", c.header)
		}
		if r := b.answered(t, req); r.status != c.want {
			t.Errorf("%s: status %d, want %d: %s", name, r.status, c.want, r.body)
		}
		if !b.reuses(t) {
			t.Errorf("%s: the connection was closed", name)
		}
	}
	soon(t, "nothing is under way", b.idle)
}

// silent is a body that never comes.
func silent(t *testing.T) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	return r
}

func TestADrainLetsStreamsOfHTTP2FinishAndMovesTheirConnections(t *testing.T) {
	t.Parallel()
	e := newPacedEngine(t)
	b := secureBench(t, e.url, true, func(o *Options) { o.Drain = Drain{Grace: 20 * time.Second} })
	s := b.beginStream(t.Context(), t, e)
	b.draining.Store(true) // as in the delay of Stop
	if !b.reuses(t) {
		t.Fatal("the stream and the request do not share a connection")
	}
	if b.reuses(t) {
		t.Error("the client was not told to take another connection while the listener was open")
	}
	var stopped sync.WaitGroup
	stopped.Go(func() { b.Stop(t.Context()) })
	soon(t, "the listener is closed", func() bool {
		c, err := net.Dial("tcp", b.Addr().String())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	for _, token := range []string{"late", ""} {
		e.tokens <- token
	}
	if !s.has("late") || !s.has("[DONE]") {
		t.Error("the stream did not finish:", s.lines.Err())
	}
	stopped.Wait()
}

func TestOrdersOfAPageThatDidNotComeOverTLSAreRefused(t *testing.T) {
	t.Parallel()
	bothVersions(t, func(t *testing.T, http2 bool) {
		b := secureBench(t, simulator(t).URL(), http2, func(o *Options) { o.Operators = crew(t) })
		o := office{bench: b, admin: "https://" + b.AdminAddr().String()}
		for origin, want := range map[string]int{"http://" + b.AdminAddr().String(): http.StatusForbidden, o.admin: http.StatusOK} {
			if got := o.get(t, "/admin/session", "Authorization", "Bearer "+adminToken, "Origin", origin); got != want {
				t.Errorf("a page of %s: status %d, want %d", origin, got, want)
			}
		}
	})
}
