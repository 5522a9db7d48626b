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
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/refit"
	"github.com/foregate/foregate/tiers/upstream"
	"github.com/foregate/foregate/tiers/world"
)

// bench is a gateway over one target, with what a test may turn.
type bench struct {
	*Gateway
	url      string
	registry *prometheus.Registry
	engines  *upstream.Client
	client   *http.Client
	endLoops func()
}

// startBench runs a gateway over a backend; adjust may change its options.
func startBench(t *testing.T, backend string, adjust func(*Options)) *bench {
	t.Helper()
	b := makeBench(t, backend, adjust)
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Stop(context.Background()) })
	b.url = "http://" + b.Addr().String()
	b.client = &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	t.Cleanup(b.client.CloseIdleConnections)
	return b
}

// idle reports whether no request is under way, and nothing is held for one.
func (b *bench) idle() bool { return b.held() == held{} }

// held is what all requests hold.
type held struct{ requests, bytes int64 }

func (b *bench) held() (h held) {
	h.requests, h.bytes = b.bodies.usage()
	return h
}

// makeBench is startBench without the start.
func makeBench(t *testing.T, backend string, adjust func(*Options)) *bench {
	t.Helper()
	b := &bench{registry: prometheus.NewRegistry(), engines: upstream.New(upstream.Options{})}
	target, err := pool.New(pool.Options{Name: "targets", Model: "m", Backends: []string{backend}, Registerer: b.registry})
	if err != nil {
		t.Fatal(err)
	}
	cfg := plan.Config{Mode: plan.ModeConfidence, Accept: accept.Config{}, MaxPromptTokens: 1000, Timeouts: plan.Timeouts{
		DraftFirstToken: 20 * time.Second, TargetFirstToken: 20 * time.Second, StreamIdle: 20 * time.Second, Total: time.Minute}}
	cascade := tiers.New(tiers.Options{
		Upstream: b.engines, Queue: open{}, Breaker: open{}, World: world.System{}, MaxBody: 16 << 20, Registerer: b.registry,
		Capabilities: func(string) *probe.Capabilities { return nil }, Random: func(string, tiers.Purpose) float64 { return 0.5 },
		Routes: []tiers.Route{{Model: "llama-3", Target: target, Config: func() plan.Config { return cfg }}},
	})
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Cascade: cascade, Identity: who, Replica: &replica{}, Fleet: twoPools(),
		Evidence: evidence.New(evidence.Options{}), Refits: refit.New(refit.Options{}),
		Drain: Drain{Grace: 5 * time.Second}, Registerer: b.registry, Gatherer: b.registry}
	b.endLoops = background(t, target.Run, cascade.Run)
	if adjust != nil {
		adjust(&o)
	}
	if o.Settings == nil {
		o.Settings = settings.New(settings.Options{})
	}
	if o.Ledger == nil {
		o.Ledger = ledger.New(ledger.Options{Registerer: o.Registerer})
	}
	if b.Gateway, err = New(o); err != nil {
		t.Fatal(err)
	}
	return b
}

// open is a queue and a breaker that let every call in.
type open struct{}

func (open) Enter(_ context.Context, _ dispatch.Ticket, try func(pool.Admission) error) (time.Duration, error) {
	return 0, try(pool.Admission{})
}

func (open) Allow(string, string, string) (dispatch.Permit, error) { return open{}, nil }

func (open) Report(error) {}

// replica is the process around a test's gateway.
type replica struct {
	health atomic.Pointer[Health] // nil: it has one route
	status Status
	store  *settings.Store
}

// serving is a replica with these routes.
func serving(routes ...RouteState) *replica {
	r := &replica{}
	r.health.Store(&Health{Routes: routes})
	return r
}

func (r *replica) Health() Health {
	if h := r.health.Load(); h != nil {
		return *h
	}
	return Health{Routes: []RouteState{{Route: "llama-3", Ready: true, State: RouteOK}}}
}

func (r *replica) Status() Status { return r.status }

func (r *replica) Reload(context.Context, bool) (ReloadResult, error) { return ReloadResult{}, nil }

func (r *replica) SettingsStore() *settings.Store { return r.store }

// liveSettings are settings that a test changes: name, value, …
func liveSettings(t *testing.T) (w *settings.Watcher, set func(fields ...string)) {
	t.Helper()
	m := miniredis.RunT(t)
	c := redis.NewClient(&redis.Options{Addr: m.Addr(), ContextTimeoutEnabled: true, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	w = settings.New(settings.Options{Redis: c, Routes: []string{"llama-3"}})
	return w, func(fields ...string) {
		m.HSet(settings.Key, fields...)
		soon(t, "the settings are read", func() bool { return w.Poll(context.Background()) == nil }) // a busy machine is late
		if r := w.Snapshot().Rejected; len(r) > 0 {
			t.Fatalf("%v: %v", fields, r)
		}
	}
}

// setting returns settings with these values: name, value, …
func setting(t *testing.T, fields ...string) *settings.Watcher {
	t.Helper()
	w, set := liveSettings(t)
	set(fields...)
	return w
}

// background runs loops until end is called, at the latest when the test ends.
func background(t *testing.T, loops ...func(context.Context) error) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range loops {
		running.Go(func() { _ = run(ctx) })
	}
	end = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(end)
	return end
}

func simulator(t *testing.T) *vllmsim.Server {
	t.Helper()
	return vllmsim.Start(t, vllmsim.Options{Model: "m", Seed: 1, TimeScale: 50})
}

// ask sends a chat request of so many tokens and returns the response unread.
func (b *bench) ask(t *testing.T, stream bool, tokens int) *http.Response {
	t.Helper()
	resp, err := b.try(t.Context(), stream, tokens)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func (b *bench) try(ctx context.Context, stream bool, tokens int) (*http.Response, error) {
	body := fmt.Sprintf(`{"model":"llama-3","stream":%t,"max_tokens":%d,"ignore_eos":true,"temperature":0,"messages":[{"role":"user","content":"hi"}]}`, stream, tokens)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return b.client.Do(req)
}

// rest reads what is left of a response.
func rest(resp *http.Response) (string, error) {
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// soon polls until ok, for at most ten seconds.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func TestStopLetsStreamsFinishAndMayBeCalledAgain(t *testing.T) {
	sim := simulator(t)
	g := startBench(t, sim.URL(), nil)
	resp := g.ask(t, true, 1000) // about half a second
	var stops sync.WaitGroup
	began := time.Now()
	for range 3 {
		stops.Go(func() { g.Stop(context.Background()) })
	}
	soon(t, "the listener is closed", func() bool {
		conn, err := net.Dial("tcp", g.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
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

// flood answers every request with events that never end, as fast as they are
// taken.
func flood(t *testing.T) (url string, left <-chan struct{}) {
	t.Helper()
	gone := make(chan struct{}, 16)
	event := []byte(`data: {"model":"m","choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 32<<10) + `"},"finish_reason":null}]}` + "\n\n")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		defer func() { gone <- struct{}{} }()
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			if _, err := w.Write(event); err != nil {
				return
			}
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL, gone
}

func TestAClientThatReadsNothingIsCutAndItsGenerationWithIt(t *testing.T) {
	t.Parallel()
	const writeWait = 2 * time.Second
	url, left := flood(t)
	g := startBench(t, url, func(o *Options) {
		o.Settings = setting(t, "timeout.write@llama-3", writeWait.String())
	})
	conn, err := net.Dial("tcp", g.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	const body = `{"model":"llama-3","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	began := time.Now()
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-left:
	case <-time.After(writeWait + 10*time.Second):
		t.Fatal("a client that reads nothing holds its generation")
	}
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
