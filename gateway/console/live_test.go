package console

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// usualWait bounds what takes no time unless something is broken.
const usualWait = 10 * time.Second

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(usualWait); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", usualWait, what)
		}
		runtime.Gosched()
		<-time.After(time.Millisecond)
	}
}

// looked is a console at an address, over a registry with so many backends.
type looked struct {
	*Console
	url string
	now atomic.Int64 // seconds after noon
}

func look(t *testing.T, backends int) *looked {
	t.Helper()
	registry := prometheus.NewRegistry()
	kv := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "foregate_backend_kv_usage"}, []string{"pool", "backend"})
	registry.MustRegister(kv)
	for i := range backends {
		kv.WithLabelValues("p", fmt.Sprintf("backend-%04d", i)).Set(0.5)
	}
	l := &looked{}
	l.Console = New(Options{Gatherer: registry, Now: func() time.Time { return noon.Add(time.Duration(l.now.Load()) * time.Second) }})
	srv := httptest.NewUnstartedServer(l.Handler())
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(1) // so that the kernel holds little of what is not read
		return ctx
	}
	srv.Start()
	t.Cleanup(srv.Close)
	l.url = srv.URL
	return l
}

// tick takes the next sample, whose time is n seconds after noon.
func (l *looked) tick() (n int64) {
	n = l.now.Add(1)
	l.take()
	return n
}

func (l *looked) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.subscribers)
}

// tab is a page that reads the stream.
type tab struct {
	t      *testing.T
	resp   *http.Response
	lines  *bufio.Reader
	cancel context.CancelFunc
}

func (l *looked) tab(t *testing.T) *tab {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+"/console/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &tab{t: t, resp: resp, lines: bufio.NewReader(resp.Body), cancel: cancel}
}

// event reads the next one.
func (p *tab) event() (name, data string, err error) {
	for {
		line, err := p.lines.ReadString('\n')
		if err != nil {
			return "", "", err
		}
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "":
			return name, data, nil
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data = line[len("data: "):]
		default:
			p.t.Fatalf("a line that is not ours: %q", line)
		}
	}
}

// next reads a sample and returns its time, in seconds after noon.
func (p *tab) next() int64 {
	p.t.Helper()
	name, data, err := p.event()
	if err != nil || name != "sample" {
		p.t.Fatalf("event %q, %v; want a sample", name, err)
	}
	return timeOf(p.t, data)
}

func timeOf(t *testing.T, data string) int64 {
	t.Helper()
	var s Sample
	if err := json.Unmarshal([]byte(data), &s); err != nil {
		t.Fatalf("%v: %q", err, data)
	}
	return int64(s.Time) - noon.Unix()
}

// history reads the first event, and returns the times of its samples.
func (p *tab) history() (times []int64) {
	p.t.Helper()
	name, data, err := p.event()
	if err != nil || name != "history" {
		p.t.Fatalf("event %q, %v; want the history", name, err)
	}
	var samples []Sample
	if err := json.Unmarshal([]byte(data), &samples); err != nil {
		p.t.Fatalf("%v: %q", err, data)
	}
	for _, s := range samples {
		times = append(times, int64(s.Time)-noon.Unix())
	}
	return times
}

func TestAPageIsToldWhatWasAndThenWhatComes(t *testing.T) {
	l := look(t, 1)
	early := l.tab(t)
	if got := early.history(); len(got) != 0 {
		t.Errorf("nothing was, but it is told of %v", got)
	}
	for want := range int64(3) {
		if l.tick(); early.next() != want+1 {
			t.Errorf("the first page was not told of sample %d next", want+1)
		}
	}
	late := l.tab(t)
	if got := late.history(); len(got) != 3 || got[0] != 1 || got[2] != 3 {
		t.Errorf("history %v, want 1, 2, 3", got)
	}
	l.tick()
	if a, b := early.next(), late.next(); a != 4 || b != 4 {
		t.Errorf("told of %d and %d, want 4", a, b)
	}
	for key, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
		if got := late.resp.Header.Get(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// deaf opens the stream and reads nothing of it.
func (l *looked) deaf(t *testing.T) net.Conn {
	t.Helper()
	little := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1) })
	}}
	conn, err := little.DialContext(t.Context(), "tcp", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET /console/live HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestWhoDoesNotReadIsLetGoAndHoldsNobodyUp(t *testing.T) {
	l := look(t, maxBackends) // some kilobytes a sample
	reader := l.tab(t)
	reader.history()
	deaf := l.deaf(t)
	eventually(t, "both are told of samples", func() bool { return l.open() == 2 })
	for l.open() == 2 {
		n := l.tick()
		if got := reader.next(); got != n {
			t.Fatalf("the page that reads was told of %d, want %d", got, n)
		}
		if n > 2000 {
			t.Fatal("who reads nothing is still waited for")
		}
	}
	l.tick()
	reader.next()
	_ = deaf.SetReadDeadline(time.Now().Add(usualWait))
	resp, err := http.ReadResponse(bufio.NewReader(deaf), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("its stream was not ended: %v", err)
	}
}

func TestNoMorePagesThanThereIsRoomFor(t *testing.T) {
	l := look(t, 1)
	var tabs []*tab
	for range maxSubscribers {
		p := l.tab(t)
		p.history()
		tabs = append(tabs, p)
	}
	refused := l.tab(t).resp
	if refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
		t.Errorf("page %d: status %d, Retry-After %q", maxSubscribers+1, refused.StatusCode, refused.Header.Get("Retry-After"))
	}
	l.tick()
	for _, p := range tabs {
		p.next()
	}
	tabs[0].cancel()
	eventually(t, "the place of one that left is free", func() bool { return l.open() == maxSubscribers-1 })
	l.tab(t).history()
}
