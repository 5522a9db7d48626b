package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestABodyThatNobodyReadsHoldsNoPlace takes all places of a listener by requests whose bodies never come, on paths
// that read none.
func TestABodyThatNobodyReadsHoldsNoPlace(t *testing.T) {
	t.Parallel()
	const places = 16
	for _, l := range []struct {
		name, path string
		places     int
		addr       func(*bench) net.Addr
	}{
		{"public", "/livez", places, (*bench).Addr},
		{"public", "/v1/models", places, (*bench).Addr},
	} {
		t.Run(l.name+l.path, func(t *testing.T) {
			t.Parallel()
			g := startBench(t, simulator(t).URL(), func(o *Options) {
				o.Limits.Conns = places
				o.Settings = setting(t, "timeout.write", "1m")
			})
			at := l.addr(g).String()
			reservation := make([]net.Conn, l.places)
			for i := range reservation {
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n", l.path); err != nil {
					t.Fatal(err)
				}
				reservation[i] = conn
			}
			for _, conn := range reservation {
				_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatalf("no answer: %v", err)
				}
				_ = resp.Body.Close()
			}
			soon(t, "somebody else is served", func() bool { return reach(t, clientAt(t, "127.0.0.9"), "http://"+at+"/livez") == nil })
		})
	}
}

// TestAnswersThatNobodyReadsHoldNoPlace sends requests one behind the other, and reads no answer.
func TestAnswersThatNobodyReadsHoldNoPlace(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	g := startBench(t, simulator(t).URL(), func(o *Options) {
		o.Settings = setting(t, "timeout.write", "200ms")
	})
	const bad = "{}"
	for name, request := range map[string]string{
		"a probe":   "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a refusal": fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(bad), bad),
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", g.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetWriteDeadline(time.Now().Add(30 * time.Second))
		for many := strings.Repeat(request, 100); err == nil; {
			_, err = conn.Write([]byte(many))
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is still held", name)
		}
		_ = conn.Close()
	}
}

// TestWhatIsRefusedHoldsNoPlaceForTheRestOfItsBody sends more of a body than may be, but not its end.
func TestWhatIsRefusedHoldsNoPlaceForTheRestOfItsBody(t *testing.T) {
	t.Parallel()
	o, _, _ := openGuarded(t, true)
	for _, path := range []string{"/admin/settings", "/admin/drain?backend=h100"} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", o.AdminAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // a sixth of what a body may take
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
			path, adminToken, maxActionBytes+1, strings.Repeat("x", maxActionBytes+1)); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(conn)
		if !strings.HasPrefix(string(all), "HTTP/1.1 413 ") || err != nil {
			t.Errorf("%s: %.20q, and the connection ends with %v", path, all, err)
		}
	}
}
