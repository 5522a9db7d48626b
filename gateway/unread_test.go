package gateway

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
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
		{"admin", "/livez", maxAdminConns, (*bench).AdminAddr},
		{"admin", "/metrics", maxAdminConns, (*bench).AdminAddr},
	} {
		t.Run(l.name+l.path, func(t *testing.T) {
			t.Parallel()
			g := startBench(t, simulator(t).URL(), func(o *Options) {
				o.Limits.Conns, o.Limits.ConnsPerAddress = places, places
				o.Timeouts = func(string) Timeouts { return Timeouts{BodyStart: time.Minute, Body: time.Minute, Write: time.Minute} }
			})
			at := l.addr(g).String()
			held := make([]net.Conn, l.places)
			for i := range held {
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n", l.path); err != nil {
					t.Fatal(err)
				}
				held[i] = conn
			}
			for _, conn := range held {
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
