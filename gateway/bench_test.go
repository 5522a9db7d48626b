package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers"
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
	url, admin string // of the two listeners
	log        *lines
	registry   *prometheus.Registry
	engines    *upstream.Client
	client     *http.Client
	endLoops   func()
}

// startBench runs a gateway over a backend; adjust may change its options.
func startBench(t *testing.T, backend string, adjust func(*Options)) *bench {
	t.Helper()
	b := makeBench(t, backend, adjust)
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Stop(context.Background()) })
	b.url, b.admin = "http://"+b.Addr().String(), "http://"+b.AdminAddr().String()
	b.client = &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: time.Minute}
	t.Cleanup(b.client.CloseIdleConnections)
	return b
}

// limited is a gateway whose tenants have limits.
func limited(t *testing.T, backend string, adjust func(*Options), tenants ...identity.Tenant) *bench {
	t.Helper()
	return startBench(t, backend, func(o *Options) {
		o.Identity = callers(t, identity.Options{Tenants: tenants})
		if adjust != nil {
			adjust(o)
		}
	})
}

func callers(t *testing.T, o identity.Options) *identity.Resolver {
	t.Helper()
	who, err := identity.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return who
}

// idle reports whether no request is under way, and nothing is held for one.
func (b *bench) idle() bool { return b.held() == held{} }

// held is what all requests hold.
type held struct{ requests, bytes int64 }

func (b *bench) held() (h held) {
	h.requests, h.bytes = b.bodies.usage()
	return h
}

// shrink changes the memory for bodies, in bytes.
func (b *bench) shrink(total int64) {
	b.bodies.mu.Lock()
	defer b.bodies.mu.Unlock()
	b.bodies.bytes.total = total
}

// makeBench is startBench without the start.
func makeBench(t *testing.T, backend string, adjust func(*Options)) *bench {
	t.Helper()
	b := &bench{registry: prometheus.NewRegistry(), engines: upstream.New(upstream.Options{}), log: &lines{}}
	target, err := pool.New(pool.Options{Name: "targets", Model: "m", Backends: []string{backend}, Registerer: b.registry})
	if err != nil {
		t.Fatal(err)
	}
	cfg := plan.Config{Mode: plan.ModeConfidence, MaxPromptTokens: 1000, Timeouts: plan.Timeouts{
		DraftFirstToken: 20 * time.Second, TargetFirstToken: 20 * time.Second, StreamIdle: 20 * time.Second, Total: time.Minute}}
	cascade := tiers.New(tiers.Options{
		Upstream: b.engines, Queue: open{}, Breaker: open{}, World: world.System{}, MaxBody: 16 << 20, Registerer: b.registry,
		Capabilities: func(string) *probe.Capabilities { return nil }, Random: func(string, tiers.Purpose) float64 { return 0.5 },
		Routes: []tiers.Route{{Model: "llama-3", Target: target, Config: func() plan.Config { return cfg }}},
	})
	o := Options{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Cascade: cascade, Identity: callers(t, identity.Options{}), Replica: &replica{orders: twoPools()},
		Evidence: evidence.New(evidence.Options{}), Refits: refit.New(refit.Options{}), Logger: zerolog.New(b.log),
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
	*orders
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

// lines is a log that can be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) holding(part string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

// newRedis is a Redis in this process, and a client of it.
func newRedis(t *testing.T) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	m := miniredis.RunT(t)
	c := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return m, c
}

// liveSettings are settings that a test changes: name, value, …
func liveSettings(t *testing.T) (w *settings.Watcher, set func(fields ...string)) {
	t.Helper()
	m, c := newRedis(t)
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

// reply is an answer, as far as it came.
type reply struct {
	status int
	head   http.Header
	body   string
}

// says is what an error says of itself.
func (r reply) says() (kind, code, message string) {
	var e struct {
		Error struct{ Type, Code, Message string }
	}
	_ = json.Unmarshal([]byte(r.body), &e) // then it says nothing
	return e.Error.Type, e.Error.Code, e.Error.Message
}

// seconds reads Retry-After.
func (r reply) seconds(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(r.head.Get("Retry-After"))
	if err != nil {
		t.Errorf("Retry-After is %q", r.head.Get("Retry-After"))
	}
	return n
}

// newRequest makes a request; headers are name, value, …
func newRequest(ctx context.Context, method, url, body string, headers ...string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		panic(err) // the test's own URL
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

// do sends a request. An answer that breaks off is an error, with what came of it.
func (b *bench) do(req *http.Request) (reply, error) {
	resp, err := b.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	text, err := rest(resp)
	return reply{resp.StatusCode, resp.Header, text}, err
}

// call sends a request, which is answered whole; headers are name, value, …
func (b *bench) call(t *testing.T, method, url, body string, headers ...string) reply {
	t.Helper()
	r, err := b.do(newRequest(t.Context(), method, url, body, headers...))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// send is call of what is answered in JSON.
func (b *bench) send(t *testing.T, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	r := b.call(t, method, url, body, headers...)
	if kind := r.head.Get("Content-Type"); kind != plainJSON {
		t.Errorf("%s %s: Content-Type %q", method, url, kind)
	}
	return r.status, r.body
}

// get asks for a path of the public listener in a tenant's name, "" for none.
func (b *bench) get(t *testing.T, path, tenant string, headers ...string) reply {
	t.Helper()
	return b.call(t, http.MethodGet, b.url+path, "", jsonOf(tenant, headers...)...)
}

// jsonOf are the headers of JSON in a tenant's name, "" for none.
func jsonOf(tenant string, headers ...string) []string {
	if tenant != "" {
		headers = append([]string{"X-Tenant-ID", tenant}, headers...)
	}
	return append([]string{"Content-Type", plainJSON}, headers...)
}

// to sends JSON to a path in a tenant's name.
func (b *bench) to(t *testing.T, path, tenant, body string, headers ...string) reply {
	t.Helper()
	return b.call(t, http.MethodPost, b.url+path, body, jsonOf(tenant, headers...)...)
}

// chat sends a chat of a tenant.
func (b *bench) chat(t *testing.T, tenant, extra string, headers ...string) reply {
	t.Helper()
	return b.to(t, chatPath, tenant, `{"model":"llama-3","messages":[{"role":"user","content":"hi"}]`+extra+`}`, headers...)
}

const (
	chatPath    = "/v1/chat/completions"
	short       = `,"max_tokens":5`
	plainJSON   = "application/json"
	plainEvents = "text/event-stream"
)

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
	return b.client.Do(newRequest(ctx, http.MethodPost, b.url+chatPath, body, "Content-Type", plainJSON))
}

// rest reads what is left of a response.
func rest(resp *http.Response) (string, error) {
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// soon polls until ok, for at most twenty seconds.
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
