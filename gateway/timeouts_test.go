package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestHowLongABodyIsWaitedForIsLive sends a request without its body, and one whose body
// comes fast enough and never ends, while the timeouts change.
func TestHowLongABodyIsWaitedForIsLive(t *testing.T) {
	live, set := liveSettings(t)
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Settings = live })
	for _, wait := range []time.Duration{100 * time.Millisecond, 800 * time.Millisecond} {
		set("timeout.body", wait.String())
		for name, send := range map[string]string{"nothing comes": "", "it never comes": `{"model":"llama-3",` + strings.Repeat(" ", 2000)} {
			conn, err := net.Dial("tcp", g.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, _ = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n%s", send)
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			_ = conn.Close()
			if took := time.Since(began); resp.StatusCode != http.StatusRequestTimeout || took < wait || took > wait+3*time.Second {
				t.Errorf("%s: status %d after %v, want 408 after %v: %s", name, resp.StatusCode, took, wait, body)
			}
		}
	}
}
