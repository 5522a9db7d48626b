package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience bounds each wait of the suites; no test needs it.
const patience = 20 * time.Second

// setup is what a suite asks of a client.
type setup struct {
	dial     func(ctx context.Context, network, addr string) (net.Conn, error) // nil is a plain one
	idle     time.Duration                                                     // 0 is long
	maxIdle  int                                                               // connections kept; 0 is many
	maxConns int                                                               // connections at once; 0 is many
}

// complete sets the defaults.
func (s setup) complete() setup {
	if s.dial == nil {
		s.dial = (&net.Dialer{}).DialContext
	}
	if s.idle == 0 {
		s.idle = time.Hour
	}
	if s.maxIdle == 0 {
		s.maxIdle = 512
	}
	if s.maxConns == 0 {
		s.maxConns = 4096
	}
	return s
}

// transport is a client under test.
type transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// client is one with its name, "ours" or "net/http".
type client struct {
	transport
	name string
}

const (
	ours   = "ours"
	theirs = "net/http"
)

// overBoth runs a test over both clients. The client has no connection behind the test.
func overBoth(t *testing.T, s setup, test func(t *testing.T, c client)) {
	t.Helper()
	for name, open := range map[string]func(setup) transport{ours: newOurs, theirs: newTheirs} {
		t.Run(name, func(t *testing.T) {
			c := client{open(s.complete()), name}
			defer c.CloseIdleConnections()
			test(t, c)
		})
	}
}

func newTheirs(s setup) transport {
	return &http.Transport{
		DialContext: s.dial, IdleConnTimeout: s.idle, MaxIdleConnsPerHost: s.maxIdle, MaxConnsPerHost: s.maxConns,
		DisableCompression: true, MaxResponseHeaderBytes: maxTestHead, ReadBufferSize: maxTestHead, // as of the gateway's own
	}
}

// ourTransport is a Transport as an http.RoundTripper.
type ourTransport struct{ *Transport }

func newOurs(s setup) transport {
	return ourTransport{New(Options{Dial: s.dial, IdleTimeout: s.idle, MaxIdle: s.maxIdle, MaxConns: s.maxConns})}
}

// RoundTrip implements [http.RoundTripper].
func (o ourTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return nil, err
	}
	path := r.URL.RequestURI()
	var resp Response
	if err := o.Do(r.Context(), &Request{Base: "http://" + r.URL.Host, Path: path, Header: r.Header, Body: body}, &resp); err != nil {
		return nil, caused(r.Context(), err)
	}
	return &http.Response{StatusCode: resp.Status, ContentLength: resp.ContentLength, Body: ourBody{resp.Body, r.Context()}}, nil
}

// caused tells an error of a context from others, as a caller of a Transport does: the context's end closes the connection.
func caused(ctx context.Context, err error) error {
	if errors.Is(err, net.ErrClosed) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (o ourTransport) CloseIdleConnections() { o.CloseIdle() }

// ourBody is a Body as an io.ReadCloser.
type ourBody struct {
	Body
	ctx context.Context
}

func (b ourBody) Read(p []byte) (int, error) {
	n, err := b.Body.Read(p)
	return n, caused(b.ctx, err)
}

func (b ourBody) Close() error {
	b.Body.Close()
	return nil
}

// maxTestHead bounds a response's head in the suites, in bytes.
const maxTestHead = 64 << 10

// result is what a caller gets of one exchange.
type result struct {
	status int // 0: there was no answer
	body   string
	end    string // "": the answer is whole; cut, broken or canceled
}

// The ends of an answer that is not whole.
const (
	cut      = "cut"      // the connection ended before the answer
	broken   = "broken"   // it is no HTTP/1.1
	canceled = "canceled" // by the caller
)

func (r result) String() string {
	if r.status == 0 {
		return r.end
	}
	return strings.TrimSpace(fmt.Sprintf("%d %.99q %s", r.status, r.body, r.end))
}

// endOf words an error.
func endOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled):
		return canceled
	case errors.Is(err, context.DeadlineExceeded):
		return "hanging"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		strings.Contains(err.Error(), "unexpected EOF"), strings.Contains(err.Error(), "server closed idle connection"): // net/http has no sentinels for these
		return cut
	}
	return broken
}

// newRequest is a request with a body, as the gateway makes it.
func newRequest(ctx context.Context, url, body string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header["Content-Type"] = []string{"application/json"}
	return r
}

// ask makes one exchange and reads the whole answer.
func (c client) ask(ctx context.Context, url, body string) result {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	resp, err := c.RoundTrip(newRequest(ctx, url, body))
	if err != nil {
		return result{end: endOf(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return result{resp.StatusCode, string(b), endOf(err)}
}

// engine serves connections on bare sockets.
type engine struct {
	url    string
	opened atomic.Int64 // connections so far
	open   atomic.Int64 // connections now, as far as their scripts run
}

// peer is an engine's end of a connection.
type peer struct {
	*net.TCPConn
	r   *bufio.Reader
	nth int64 // of the engine, from 1
}

// listen starts an engine that runs the script for each connection and closes it then. It ends with the test.
func listen(t testing.TB, script func(p *peer)) *engine {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{url: "http://" + l.Addr().String()}
	var mu sync.Mutex
	var wg sync.WaitGroup
	all := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			all[c] = true
			mu.Unlock()
			e.open.Add(1)
			p := &peer{c.(*net.TCPConn), bufio.NewReader(c), e.opened.Add(1)}
			wg.Go(func() {
				defer e.open.Add(-1)
				script(p)
				_ = c.Close()
				mu.Lock()
				delete(all, c)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range all {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return e
}

// request reads a request with its body, and returns the body; false at the connection's end.
func (p *peer) request() (string, bool) {
	r, err := http.ReadRequest(p.r)
	if err != nil {
		return "", false
	}
	b := make([]byte, r.ContentLength)
	_, err = io.ReadFull(r.Body, b)
	return string(b), err == nil
}

// say writes raw bytes; what the client left has no matter.
func (p *peer) say(raw string) { _, _ = io.WriteString(p, raw) }

// ended waits for the client's end of the connection; false if something came.
func (p *peer) ended() bool {
	n, _ := io.Copy(io.Discard, p.r)
	return n == 0
}

// reset closes the connection by RST.
func (p *peer) reset() {
	_ = p.SetLinger(0)
	_ = p.Close()
}

// whole is a response of status 200 with a length.
func whole(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// chunked is a body in chunks of up to n bytes, with its end.
func chunked(body string, n int) string {
	var b strings.Builder
	for len(body) > 0 {
		k := min(n, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", k, body[:k])
		body = body[k:]
	}
	return b.String() + "0\r\n\r\n"
}

// eventually polls until what is true holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// signal waits for one.
func signal[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("never: %s", what)
		panic("unreachable")
	}
}

// nothingLeft checks at the test's end that it leaves no goroutine and no file behind. It is called first.
func nothingLeft(t *testing.T) {
	t.Helper()
	silentSocket(t) // else the first test with a network finds two files more, the poller's
	routines, files := runtime.NumGoroutine(), openFiles(t)
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			r, f := runtime.NumGoroutine(), openFiles(t)
			if r <= routines && f <= files {
				return
			}
			if time.Now().After(end) {
				all := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, %d before; %d files, %d before\n%s", r, routines, f, files, all[:runtime.Stack(all, true)])
			}
		}
	})
}

// openFiles counts the files that the process has open; 0 where the system does not tell.
func openFiles(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(all)
}
