package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestStopLetsStreamsFinishAndMayBeCalledAgain(t *testing.T) {
	g := startBench(t, simulator(t).URL(), nil)
	resp := g.ask(t, true, 1000) // about half a second
	var stops sync.WaitGroup
	began := time.Now()
	for range 3 {
		stops.Go(func() { g.Stop(context.Background()) })
	}
	g.closes(t)
	body, err := rest(resp)
	if err != nil || !strings.HasSuffix(body, "data: [DONE]\n\n") || strings.Contains(body, "event: error") {
		t.Errorf("the stream was cut: %v …%s", err, body[max(0, len(body)-300):])
	}
	stops.Wait()
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("with its last stream gone it took %v to stop", took)
	}
	g.Stop(t.Context())
}

// closes waits until the public listener is closed.
func (b *bench) closes(t *testing.T) {
	t.Helper()
	soon(t, "the listener is closed", func() bool {
		conn, err := net.Dial("tcp", b.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}

func TestWhatIsLeftAtTheEndOfTheGraceIsToldAndCut(t *testing.T) {
	sim := simulator(t)
	sim.SetFault(vllmsim.Fault{Hang: "stream", AfterTokens: 5})
	g := startBench(t, sim.URL(), func(o *Options) { o.Drain.Grace = time.Second })
	stream := g.ask(t, true, 1000)
	sim.SetFault(vllmsim.Fault{Hang: "headers"})
	var whole sync.WaitGroup
	whole.Go(func() {
		resp, err := g.try(t.Context(), false, 1000)
		if err != nil {
			t.Errorf("a request without an answer yet was cut without a word: %v", err)
			return
		}
		body, err := rest(resp)
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, "gateway_draining") {
			t.Errorf("status %d, Retry-After %q, %v: %s", resp.StatusCode, resp.Header.Get("Retry-After"), err, body)
		}
	})
	soon(t, "both requests are under way", func() bool {
		return g.held().requests == 2 && sim.State().Requests["/v1/chat/completions"] == 2
	})
	began := time.Now()
	g.Stop(context.Background())
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a grace of 1 s took %v", took)
	}
	body, err := rest(stream)
	if !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(body, "[DONE]") {
		t.Errorf("the cut stream ended with %v: %s", err, body)
	}
	if !strings.Contains(body, "event: error\ndata: {\"error\":") || !strings.Contains(body, `"code":"gateway_draining"`) {
		t.Errorf("the cut stream was not told why: %s", body)
	}
	whole.Wait()
	soon(t, "nothing is under way", func() bool { return g.idle() })
}

// brokenBody panics when it is read.
type brokenBody struct{ io.ReadCloser }

func (brokenBody) Read([]byte) (int, error) { panic("a bug") }

// recorder is one of a connection with deadlines.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetReadDeadline(time.Time) error { return nil }

func TestAPanicWhileABodyIsReadHoldsNothing(t *testing.T) {
	g := startBench(t, simulator(t).URL(), nil)
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", brokenBody{http.NoBody})
	r.Host = g.Addr().String()
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = "127.0.0.1:1"
	w := recorder{httptest.NewRecorder()}
	g.public.server.Handler.ServeHTTP(w, r)
	if w.Code != http.StatusInternalServerError || !g.idle() {
		t.Errorf("status %d %s, %+v is held", w.Code, w.Body, g.held())
	}
}

func TestAPanicInAHandlerIsA500AndTheProcessLives(t *testing.T) {
	sim := simulator(t)
	broken := true
	var mu sync.Mutex
	g := startBench(t, sim.URL(), func(o *Options) {
		o.Salt = func(string) string {
			mu.Lock()
			defer mu.Unlock()
			if broken {
				panic("a bug")
			}
			return ""
		}
	})
	for range 3 {
		resp := g.ask(t, true, 5)
		body, err := rest(resp)
		if err != nil || resp.StatusCode != http.StatusInternalServerError || !strings.Contains(body, `"code":"internal_error"`) || strings.Contains(body, "a bug") {
			t.Errorf("status %d, %v: %s", resp.StatusCode, err, body)
		}
	}
	mu.Lock()
	broken = false
	mu.Unlock()
	if body, err := rest(g.ask(t, false, 5)); err != nil || !strings.Contains(body, `"finish_reason":"length"`) {
		t.Errorf("after the panics: %v %s", err, body)
	}
	if got := testutil.ToFloat64(g.metrics.panics); got != 3 {
		t.Errorf("%v panics were counted, want 3", got)
	}
	if !g.idle() {
		t.Errorf("%+v is still held", g.held())
	}
}

func TestAClientThatReadsNothingIsCutAndItsGenerationWithIt(t *testing.T) {
	t.Parallel()
	const writeWait = 2 * time.Second
	url, left := flood(t)
	g := startBench(t, url, func(o *Options) {
		o.Settings = setting(t, "timeout.write@llama-3", writeWait.String())
	})
	began := time.Now()
	conn := g.dial(t, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(streamedChat), streamedChat))
	expect(t, "the generation of a client that reads nothing ends", left)
	if took := time.Since(began); took < writeWait*9/10 {
		t.Errorf("it was cut after %v, before %v", took, writeWait)
	}
	soon(t, "nothing is under way", func() bool { return g.idle() })
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if got, err := io.ReadAll(bufio.NewReader(conn)); bytes.Contains(got, []byte("[DONE]")) {
		t.Errorf("a cut stream has an end: %v", err)
	}
}

func TestAStoppedGatewayLeavesNoGoroutineBehind(t *testing.T) {
	sim := simulator(t)
	warm := startBench(t, sim.URL(), nil) // the packages' own goroutines, such as the resolver's
	if _, err := rest(warm.ask(t, true, 5)); err != nil {
		t.Fatal(err)
	}
	warm.Stop(t.Context())
	warm.endLoops()
	warm.engines.Close()
	warm.client.CloseIdleConnections()
	before := settled(t)
	g := startBench(t, sim.URL(), nil)
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := g.try(ctx, i%2 == 0, 20+i*50)
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			cancel() // the client leaves in the middle
		}
		_, _ = rest(resp) // whole or cut
		cancel()
	}
	g.Stop(t.Context())
	g.endLoops()
	g.engines.Close()
	g.client.CloseIdleConnections()
	soon(t, fmt.Sprintf("as many goroutines as before (%d)", before), func() bool { return runtime.NumGoroutine() <= before })
}

// settled is the number of goroutines once it no longer falls.
func settled(t *testing.T) int {
	t.Helper()
	least, since := runtime.NumGoroutine(), time.Now()
	soon(t, "the goroutines settle", func() bool {
		if n := runtime.NumGoroutine(); n < least {
			least, since = n, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
	return least
}
