package conns

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// start serves h behind a table.
func start(t *testing.T, o Options, h http.HandlerFunc) (*Table, string) {
	t.Helper()
	o.Listener, o.MaxIdle = "public", 75*time.Second
	table := New(o)
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	table.Guard(s)
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(table.Listen(ln)) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-done; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
	return table, ln.Addr().String()
}

// client is one connection.
type client struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

// dial connects from an address of the loopback network.
func dial(t *testing.T, from, to string) *client {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &client{c, t, bufio.NewReader(c)}
}

// get asks for a path and reads the answer.
func (c *client) get(path string) (*http.Response, error) {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.ReadAll(resp.Body)
	return resp, err
}

func (c *client) answered(path string) *http.Response {
	c.t.Helper()
	resp, err := c.get(path)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

// ended waits until the other side has ended the connection.
func (c *client) ended() {
	c.t.Helper()
	if b, err := c.r.ReadByte(); err == nil {
		c.t.Fatalf("not ended, but %q", b)
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		c.t.Fatal("still open")
	}
}

func fine(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// soon polls until ok, for at most ten seconds.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func TestAFullTableServesWhoComes(t *testing.T) {
	table, addr := start(t, Options{Max: 16}, fine)
	var silent []*client
	for range 16 {
		silent = append(silent, dial(t, "127.0.0.1", addr))
	}
	soon(t, "all are counted", func() bool { return table.count() == 16 })
	var late []*client
	for range 4 {
		late = append(late, dial(t, "127.0.0.2", addr))
	}
	soon(t, "all have found room", func() bool { return testutil.ToFloat64(table.metrics.closed.WithLabelValues(reasonFull)) == 4 })
	for i, c := range late {
		silent[i].ended()
		c.answered("/")
	}
	silent[15].answered("/") // it may still ask
}

func TestAStreamOutlivesAFlood(t *testing.T) {
	next := make(chan bool)
	table, addr := start(t, Options{Max: 8, MaxPerAddress: 4}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			fine(w, r)
			return
		}
		for range next {
			_, _ = io.WriteString(w, "piece\n")
			_ = http.NewResponseController(w).Flush()
		}
	})
	slow := dial(t, "127.0.0.1", addr)
	if _, err := fmt.Fprint(slow, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	next <- true
	for i := range 40 {
		c := dial(t, fmt.Sprintf("127.0.0.%d", 1+i%4), addr)
		if i%2 == 0 {
			c.answered("/")
		}
	}
	table.sweep(time.Now().Add(time.Hour))
	next <- true
	close(next)
	resp, err := http.ReadResponse(slow.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); string(body) != strings.Repeat("piece\n", 2) || err != nil {
		t.Errorf("%q, %v", body, err)
	}
}

func TestAnAnswerOfACrowdedTableEndsItsConnection(t *testing.T) {
	table, addr := start(t, Options{Max: 4}, fine)
	first := dial(t, "127.0.0.1", addr)
	if resp := first.answered("/"); resp.Close {
		t.Error("the first of four ends")
	}
	dial(t, "127.0.0.1", addr).answered("/")
	third := dial(t, "127.0.0.1", addr)
	if resp := third.answered("/"); !resp.Close {
		t.Error("the third of four goes on")
	}
	third.ended()
	soon(t, "its place is free", func() bool { return table.count() == 2 })
	if resp := first.answered("/"); resp.Close {
		t.Error("now only two are open")
	}
}

func TestARefusalIsReadByWhoIsStillSending(t *testing.T) {
	_, addr := start(t, Options{Max: 4}, func(w http.ResponseWriter, r *http.Request) {
		CloseAfterResponse(w, r)
		w.WriteHeader(http.StatusUnauthorized)
	})
	c := dial(t, "127.0.0.1", addr)
	if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 4<<20, strings.Repeat("x", 1<<20)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || !resp.Close {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	c.ended()
}

func TestABalancersConnectionOutlivesARefusal(t *testing.T) {
	balancers := []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
	_, addr := start(t, Options{Max: 4, Balancers: balancers}, func(w http.ResponseWriter, r *http.Request) {
		CloseAfterResponse(w, r)
		w.WriteHeader(http.StatusUnauthorized)
	})
	if resp := dial(t, "127.0.0.1", addr).answered("/"); !resp.Close {
		t.Error("a client's goes on")
	}
	balancer := dial(t, "127.0.0.2", addr)
	for range 2 {
		if resp := balancer.answered("/"); resp.Close {
			t.Error("a balancer's ends")
		}
	}
}

func TestTheSweepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(Options{Max: 1}).Run(ctx); err != context.Canceled {
		t.Error(err)
	}
}
