package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

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
	b.url, b.admin = "https://"+b.Addr().String(), "https://"+b.AdminAddr().String()
	var versions http.Protocols
	versions.SetHTTP1(!http2)
	versions.SetHTTP2(http2)
	b.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool}, Protocols: &versions}, Timeout: time.Minute}
	t.Cleanup(b.client.CloseIdleConnections)
	return b
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
	var sent sync.WaitGroup
	sent.Go(func() { e.tokens <- "a" })
	resp, err := b.client.Do(newRequest(ctx, http.MethodPost, b.url+chatPath, streamedChat, "Content-Type", plainJSON))
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
		expect(t, "the engine's request is cancelled", e.left)
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
	expect(t, "the engine stops", left)
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
	if r, err := b.do(newRequest(ctx, http.MethodGet, b.url+"/v1/models", "")); err != nil || r.status != http.StatusOK {
		t.Fatalf("GET /v1/models: %d %v", r.status, err)
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
		if r, err := b.do(req); err != nil || r.status != c.want {
			t.Errorf("%s: status %d, want %d: %v %s", name, r.status, c.want, err, r.body)
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

func TestADrainMovesConnectionsOfHTTP1(t *testing.T) {
	t.Parallel()
	b := secureBench(t, simulator(t).URL(), false, nil)
	b.reuses(t)
	b.draining.Store(true) // as in the delay of Stop
	if !b.reuses(t) {
		t.Fatal("the requests do not share a connection")
	}
	if b.reuses(t) {
		t.Error("the client was not told to take another connection while the listener was open")
	}
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
	b.closes(t)
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
		for origin, want := range map[string]int{"http://" + b.AdminAddr().String(): http.StatusForbidden, b.admin: http.StatusOK} {
			if got := b.call(t, http.MethodGet, b.admin+"/admin/session", "", bearer(adminToken, "Origin", origin)...).status; got != want {
				t.Errorf("a page of %s: status %d, want %d", origin, got, want)
			}
		}
	})
}

// frames is a client that writes the frames of HTTP/2 itself.
type frames struct {
	*http2.Framer
	t    *testing.T
	conn *tls.Conn
	next uint32 // id of the next stream

	mu       sync.Mutex
	settings map[http2.SettingID]uint32 // of the server
	status   map[uint32]string          // by stream; RST of one that was reset without an answer
}

// dialFrames opens a connection whose streams may each get so many bytes of an answer before they are read.
func dialFrames(t *testing.T, b *bench, window uint32) *frames {
	t.Helper()
	conn, err := tls.Dial("tcp", b.Addr().String(), &tls.Config{RootCAs: b.client.Transport.(*http.Transport).TLSClientConfig.RootCAs, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	f := &frames{Framer: http2.NewFramer(conn, conn), t: t, conn: conn, next: 1, settings: map[http2.SettingID]uint32{}, status: map[uint32]string{}}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	f.do(f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	f.do(f.WriteWindowUpdate(0, 1<<30))
	return f
}

func (f *frames) do(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// request writes the head of a request, and returns its stream.
func (f *frames) request(method, path string, fields ...hpack.HeaderField) uint32 {
	f.t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, h := range append([]hpack.HeaderField{{Name: ":method", Value: method}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "127.0.0.1"}, {Name: ":path", Value: path}}, fields...) {
		_ = enc.WriteField(h) // memory takes all
	}
	id := f.next
	f.next += 2
	first := block.Next(16 << 10)
	f.do(f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: method == http.MethodGet, EndHeaders: block.Len() == 0}))
	for block.Len() > 0 {
		part := block.Next(16 << 10)
		f.do(f.WriteContinuation(id, block.Len() == 0, part))
	}
	return id
}

// jsonType is the field that a body needs.
var jsonType = hpack.HeaderField{Name: "content-type", Value: "application/json"}

// read reads frames until the connection ends. It gives no window back.
func (f *frames) read() {
	for {
		frame, err := f.ReadFrame()
		f.mu.Lock()
		switch x := frame.(type) {
		case *http2.SettingsFrame:
			_ = x.ForeachSetting(func(s http2.Setting) error { f.settings[s.ID] = s.Val; return nil })
		case *http2.MetaHeadersFrame:
			f.status[x.StreamID] = x.PseudoValue("status")
		case *http2.RSTStreamFrame:
			if f.status[x.StreamID] == "" {
				f.status[x.StreamID] = "RST"
			}
		}
		f.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// says waits until a stream was answered, and returns its status.
func (f *frames) says(id uint32) (status string) {
	f.t.Helper()
	soon(f.t, "a stream is answered", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		status = f.status[id]
		return status != ""
	})
	return status
}

func TestWhatOneConnectionOfHTTP2MayUseIsBounded(t *testing.T) {
	t.Parallel()
	b := secureBench(t, simulator(t).URL(), true, func(o *Options) { o.Limits = Limits{Header: 8 << 10, InFlight: 400} })
	f := dialFrames(t, b, 1<<20)
	go f.read()
	if status := f.says(f.request(http.MethodGet, "/v1/models")); status != "200" {
		t.Errorf("status %s", status)
	}
	for id, want := range map[http2.SettingID]uint32{
		http2.SettingMaxConcurrentStreams: 250, http2.SettingInitialWindowSize: uploadWindow, http2.SettingMaxFrameSize: maxReadFrame, http2.SettingMaxHeaderListSize: 8<<10 + 320,
	} {
		if got := f.settings[id]; got != want {
			t.Errorf("%v is %d, want %d", id, got, want)
		}
	}
	var long []hpack.HeaderField
	for range 9 {
		long = append(long, hpack.HeaderField{Name: "x-long", Value: strings.Repeat("x", 1<<10)})
	}
	if status := f.says(f.request(http.MethodGet, "/v1/models", long...)); status != "431" {
		t.Errorf("a head that is too long: status %s", status)
	}
	if status := f.says(f.request(http.MethodGet, "/v1/models")); status != "200" {
		t.Errorf("a request after it: status %s", status)
	}
}

// TestAConnectionOfHTTP2ThatTakesNothingHoldsNoGeneration has flow control allow everything, and reads no byte of the
// connection. What ends the generation depends on the kernel's buffers: if the reset of its stream finds room there, the
// connection stays, otherwise it is closed.
func TestAConnectionOfHTTP2ThatTakesNothingHoldsNoGeneration(t *testing.T) {
	t.Parallel()
	url, left := flood(t)
	b := secureBench(t, url, true, func(o *Options) {
		o.Settings = setting(t, "timeout.write", "100ms")
	})
	f := dialFrames(t, b, 1<<30)
	id := f.request(http.MethodPost, "/v1/chat/completions", jsonType)
	f.do(f.WriteData(id, true, []byte(streamedChat)))
	expect(t, "the generation of a client that reads nothing ends", left)
	soon(t, "nothing is under way", b.idle)
}

func TestRapidResetsTakeNoMoreThanOneConnectionsStreams(t *testing.T) {
	t.Parallel()
	b := secureBench(t, simulator(t).URL(), true, func(o *Options) { o.Limits = Limits{InFlight: 400} })
	f := dialFrames(t, b, 1<<20)
	go f.read()
	most := 0.0
	for range 3000 {
		id := f.request(http.MethodPost, "/v1/chat/completions", jsonType)
		if f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			break // the server has had enough
		}
		most = max(most, testutil.ToFloat64(b.metrics.inFlight))
	}
	if most > 250 {
		t.Errorf("%v requests at once, want at most 250", most)
	}
	soon(t, "nothing is under way", func() bool { return b.idle() && testutil.ToFloat64(b.metrics.inFlight) == 0 })
	b.reuses(t) // another client is served
}
