package engines

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/process"
)

// Fault is what a proxy does to the answer of one request.
type Fault struct {
	How process.End
	// Path is a part of the request's first line, such as "/v1/chat/completions"; "" is any request.
	Path string
	// After is how many SSE events of the answer (lines that begin with "data:") pass.
	After int
}

// Exchange is a request and its answer as bytes on the wire.
type Exchange struct {
	Request, Response []byte
	Faulted           bool // a fault met it
}

// Proxy passes TCP connections on to an engine, and keeps what passes.
type Proxy struct {
	URL string

	mu        sync.Mutex
	armed     []Fault
	exchanges []*Exchange
}

// NewProxy starts a proxy before an engine's URL, and closes it with the test.
func NewProxy(t testing.TB, url string) *Proxy {
	t.Helper()
	p := &Proxy{}
	tcp, err := process.NewProxy(strings.TrimPrefix(url, "http://"), func() process.Tap { return (&tapped{proxy: p}).pass })
	if err != nil {
		t.Fatal(err)
	}
	p.URL = "http://" + tcp.Addr
	t.Cleanup(tcp.Close)
	return p
}

// Arm has the next request that fits meet a fault, each once, in their order.
func (p *Proxy) Arm(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = append(p.armed, faults...)
}

// Armed is how many faults have met no request yet.
func (p *Proxy) Armed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.armed)
}

// Exchanges are copies of all exchanges so far whose first line holds path.
func (p *Proxy) Exchanges(path string) (found []Exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.exchanges {
		if line, _, _ := bytes.Cut(e.Request, []byte("\r\n")); strings.Contains(string(line), path) {
			found = append(found, Exchange{bytes.Clone(e.Request), bytes.Clone(e.Response), e.Faulted})
		}
	}
	return found
}

// tapped is one connection. Clients of HTTP/1.1 send a request when the answer to the
// last has come, so one is under way at a time. The proxy's lock guards it.
type tapped struct {
	proxy *Proxy
	now   *Exchange
	fault *Fault // of the exchange
	seen  int    // events of its answer
	tail  []byte // the last bytes of it, in which an event may begin
}

// pass takes a piece up.
func (t *tapped) pass(answer bool, piece []byte) (passes int, end process.End) {
	t.proxy.mu.Lock()
	defer t.proxy.mu.Unlock()
	passes = len(piece)
	switch {
	case !answer:
		t.asked(piece)
	case t.now != nil:
		if t.fault != nil {
			if at, met := t.meets(piece); met {
				passes, end, t.now.Faulted = at, t.fault.How, true
				t.fault = nil
			}
		}
		t.now.Response = append(t.now.Response, piece[:passes]...)
	}
	return passes, end
}

// asked takes a piece of a request up.
func (t *tapped) asked(piece []byte) {
	if t.now == nil || len(t.now.Response) > 0 {
		t.now, t.fault, t.seen, t.tail = &Exchange{}, nil, 0, nil
		t.proxy.exchanges = append(t.proxy.exchanges, t.now)
		line, _, _ := bytes.Cut(piece, []byte("\r\n"))
		fits := func(f Fault) bool { return strings.Contains(string(line), f.Path) }
		if i := slices.IndexFunc(t.proxy.armed, fits); i >= 0 {
			f := t.proxy.armed[i]
			t.fault, t.proxy.armed = &f, slices.Delete(t.proxy.armed, i, i+1)
		}
	}
	t.now.Request = append(t.now.Request, piece...)
}

// meets tells where in a piece the fault comes.
func (t *tapped) meets(piece []byte) (at int, met bool) {
	const event = "\ndata:"
	text := slices.Concat(t.tail, piece)
	old := len(text) - len(piece)
	for i := 0; ; {
		next := bytes.Index(text[i:], []byte(event))
		if next < 0 {
			t.tail = bytes.Clone(text[max(0, len(text)-len(event)+1):])
			return 0, false
		}
		if i += next + len(event); t.seen == t.fault.After { // the first that does not pass begins here
			return max(0, i-len(event)+1-old), true
		}
		t.seen++
	}
}

// counts answers with events of the numbers 0 to 9, one write each, on connections that are kept.
func counts(t *testing.T) *Proxy {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range 10 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i) // a client that left is what is tested
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(srv.Close)
	return NewProxy(t, srv.URL)
}

// streamed reads what comes of an answer, until it ends or d passes without a line.
func streamed(t *testing.T, url string, d time.Duration) (string, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // what came counts
	quiet := time.AfterFunc(d, cancel)
	defer quiet.Stop()
	lines, all := bufio.NewReader(resp.Body), ""
	for {
		line, err := lines.ReadString('\n')
		quiet.Reset(d)
		if all += line; err != nil {
			return all, err
		}
	}
}

func TestAProxyCutsStallsAndRecords(t *testing.T) {
	p := counts(t)
	whole, err := streamed(t, p.URL+"/a", time.Minute)
	if !errors.Is(err, io.EOF) || strings.Count(whole, "data:") != 10 {
		t.Fatalf("without a fault %q, %v", whole, err)
	}
	for _, f := range []Fault{{How: process.EndFIN, After: 3}, {How: process.EndStall, After: 3}} {
		p.Arm(f)
		got, err := streamed(t, p.URL+"/b", 200*time.Millisecond)
		if strings.Count(got, "data:") != 3 || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) != (f.How == process.EndStall) {
			t.Errorf("%+v: %q, %v", f, got, err)
		}
	}
	p.Arm(Fault{How: process.EndRST, After: 0, Path: "/d"})
	if got, err := streamed(t, p.URL+"/c", time.Minute); !errors.Is(err, io.EOF) || got != whole {
		t.Errorf("a fault of another path: %q, %v", got, err)
	}
	if _, err := streamed(t, p.URL+"/d", time.Minute); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Errorf("%v, want a reset", err)
	}
	all := p.Exchanges("GET /")
	if len(p.Exchanges("/b")) != 2 || len(all) < 5 || all[0].Faulted || !p.Exchanges("/d")[0].Faulted || p.Armed() != 0 {
		t.Errorf("%d exchanges, %d faults are left", len(all), p.Armed())
	}
	if got := string(all[0].Response); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || strings.Count(got, "data:") != 10 {
		t.Errorf("recorded %q", got)
	}
}
