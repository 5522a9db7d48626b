package engines

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

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
	for _, f := range []Fault{{How: FIN, After: 3, Events: true}, {How: Stall, After: 3, Events: true}} {
		p.Arm(f)
		got, err := streamed(t, p.URL+"/b", 200*time.Millisecond)
		if strings.Count(got, "data:") != 3 || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) != (f.How == Stall) {
			t.Errorf("%+v: %q, %v", f, got, err)
		}
	}
	p.Arm(Fault{How: RST, After: 0, Path: "/d"})
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
