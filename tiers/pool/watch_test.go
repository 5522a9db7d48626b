package pool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/pressure"
)

// server is a backend that tells of itself and can be taken down and back up
// at the same address.
type server struct {
	t       *testing.T
	addr    string
	http    *httptest.Server
	metrics atomic.Value                  // string; empty is 404
	health  atomic.Int32                  // status
	probes  atomic.Int32                  // of /health
	frozen  atomic.Pointer[chan struct{}] // nothing is answered until it is closed; nil: it is
	owner   string                        // of its models; "": it lists none
	asked   atomic.Int32                  // requests
	version atomic.Int32                  // status of /api/version; 0 is 200
}

func serve(t *testing.T, metrics string) *server {
	t.Helper()
	s := &server{t: t}
	s.metrics.Store(metrics)
	s.health.Store(http.StatusOK)
	s.up("127.0.0.1:0")
	t.Cleanup(func() { s.http.Close() })
	return s
}

func (s *server) up(addr string) {
	s.t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = l.Addr().String()
	s.http = httptest.NewUnstartedServer(s)
	_ = s.http.Listener.Close()
	s.http.Listener = l
	s.http.Start()
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if thaw := s.frozen.Load(); thaw != nil {
		select {
		case <-*thaw:
		case <-r.Context().Done():
			return
		}
	}
	s.asked.Add(1)
	switch r.URL.Path {
	case "/v1/models":
		if s.owner != "" {
			_, _ = w.Write([]byte(`{"data":[{"id":"m","owned_by":"` + s.owner + `"}]}`))
		}
	case "/api/version":
		w.WriteHeader(int(cmp.Or(s.version.Load(), http.StatusOK)))
	case "/health":
		w.WriteHeader(int(s.health.Load()))
		s.probes.Add(1)
	case "/metrics":
		body := s.metrics.Load().(string)
		if body == "" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(body))
	}
}

func (s *server) url() string { return "http://" + s.addr }

// events are the pool's log lines, which is how a test waits without sleeping.
type events chan map[string]any

func (e events) Write(line []byte) (int, error) {
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil {
		return 0, err
	}
	e <- m
	return len(line), nil
}

// await reads log lines until one says so.
func (e events) await(t *testing.T, message string) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case m := <-e:
			if m["message"] == message {
				return
			}
		case <-timeout:
			t.Fatalf("%q was never logged", message)
		}
	}
}

// run starts a pool over the given servers and ends it with the test.
func run(t *testing.T, o Options, servers ...*server) (*Pool, events) {
	t.Helper()
	return runWith(t, nil, o, servers...)
}

// runWith is run beside other replicas; nil is none.
func runWith(t *testing.T, f Fleet, o Options, servers ...*server) (*Pool, events) {
	t.Helper()
	p, log, _ := started(t, f, o, servers...)
	return p, log
}

// started is runWith for a test that ends the pool itself.
func started(t *testing.T, f Fleet, o Options, servers ...*server) (p *Pool, log events, stop func()) {
	t.Helper()
	log = make(events, 1000)
	for _, s := range servers {
		o.Backends = append(o.Backends, s.url())
	}
	o.Name, o.Logger, o.Fleet = "big", zerolog.New(log), f
	if o.ScrapeInterval == nil {
		o.ScrapeInterval, o.ScrapeTimeout = func() time.Duration { return 5 * time.Millisecond }, 5*time.Second
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return p, log, stop
}

// eventually waits for what no log line tells.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	timeout := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("never: %s", what)
		}
	}
}

const usage = "vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n" +
	"vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"1001\"} 1\n"

// scrapeErrors returns those of the first backend.
func (p *Pool) scrapeErrors() (n float64) {
	p.locked(func() { n = (*p.set.Load())[0].counts.scrapeErrors })
	return n
}

func TestReadingsArriveAndAreShown(t *testing.T) {
	s := serve(t, usage+"vllm:num_requests_waiting 3\n")
	reg := prometheus.NewPedanticRegistry()
	p, _ := run(t, Options{Registerer: reg}, s)
	eventually(t, "a reading", func() bool { return !looked(p)[0].usageUnknown })
	got := p.Snapshot()[0]
	if *got.KVUsage != 0.25 || got.Reading.Waiting != 3 || got.Reading.Capacity() != 16_000 || got.State != StateUp {
		t.Errorf("got %+v", got)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestBackendThatRefusesIsOutAtOnceAndBackByAProbe(t *testing.T) {
	a, b := serve(t, usage), serve(t, usage)
	p, log := run(t, Options{}, a, b)
	eventually(t, "both readings", func() bool {
		s := p.Snapshot()
		return s[0].Age != nil && s[1].Age != nil
	})
	l := pick(t, p, Demand{Exclude: []string{p.Snapshot()[1].ID}, PromptTokens: 1})
	a.http.Close()
	// The request finds out: it dials, is refused and says so.
	_, err := net.Dial("tcp", a.addr)
	if err == nil {
		t.Fatal("not closed")
	}
	l.ReportRefused(err)
	l.Done(0)
	for range 20 {
		l := pick(t, p, Demand{PromptTokens: 1})
		if l.URL() != b.url() {
			t.Fatal("picked one that is down")
		}
		l.Done(0)
	}
	log.await(t, "backend is down")
	a.up(a.addr)
	log.await(t, "backend is up again")
	if s := p.Snapshot()[0]; s.State == StateDown || s.Why != "" {
		t.Errorf("got %+v", s)
	}
}

func TestServerWithoutHealthComesBackByItsMetrics(t *testing.T) {
	a := serve(t, usage)
	a.health.Store(http.StatusNotFound)
	p, log := run(t, Options{}, a)
	eventually(t, "a reading", func() bool { return !looked(p)[0].usageUnknown })
	pick(t, p, Demand{}).ReportRefused(errors.New("connection refused"))
	log.await(t, "backend is up again")
}

func TestBackendWithoutMetricsStaysInWithAnUnknownReading(t *testing.T) {
	for name, body := range map[string]string{"missing": "", "garbage": "<html>\n", "percent": "vllm:kv_cache_usage_perc 85\n"} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, body)
			p, log := run(t, Options{}, a)
			log.await(t, "backend's metrics cannot be read")
			if s := p.Snapshot()[0]; s.State == StateDown || s.KVUsage != nil || looked(p)[0].usage != unknownUsage {
				t.Errorf("got %+v", s)
			}
			pick(t, p, Demand{PromptTokens: 10}).Done(0)
			if p.scrapeErrors() == 0 {
				t.Error("not counted")
			}
			a.metrics.Store(usage)
			log.await(t, "backend's metrics can be read again")
		})
	}
}

func TestAReadingFromElsewhereCountsAsAScrape(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p, err := New(Options{Name: "p", Model: "m", Backends: []string{"http://127.0.0.1:1", "http://127.0.0.1:2"},
		Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	first := p.Snapshot()[0].ID
	l, err := p.pick(Demand{PromptTokens: 100, Exclude: []string{p.Snapshot()[1].ID}})
	if err != nil || l.Backend() != first {
		t.Fatal(l, err)
	}
	l.ReportRefused(nil)
	if p.Observe("nobody", pressure.Reading{}, nil) {
		t.Error("a reading of an unknown backend was taken")
	}
	now = now.Add(time.Second)
	if !p.Observe(first, pressure.Reading{At: now, KVUsage: 0.25, BlockSize: 16, Blocks: 101}, nil) {
		t.Error("a reading was not taken")
	}
	s := p.Snapshot()[0]
	if s.State == StateDown || *s.KVUsage != 0.25 {
		t.Errorf("the lease before it should be in the reading, and the backend up: %+v", s)
	}
	if p.Observe(first, pressure.Reading{}, errors.New("refused")); p.Snapshot()[0].State != StateDown {
		t.Error("a refused connection did not take the backend out")
	}
}

func TestAConditionThatComesAndGoesIsLoggedOnceAMinute(t *testing.T) {
	var log strings.Builder
	b := newBench(t, Options{Backends: []string{"http://a"}, Logger: zerolog.New(&log)})
	steps := 1.0
	lines := func() int { return strings.Count(log.String(), "backend's condition changed") }
	flap := func(d time.Duration, changes bool) {
		for i := range int(d / (500 * time.Millisecond)) {
			if changes && i%20 == 0 || !changes {
				steps++ // each tenth second
			}
			b.tick(500*time.Millisecond, func(int) pressure.Reading { return works(3, steps) })
			b.noteChanges(b.first())
		}
	}
	flap(10*time.Second, true)
	if lines() != 1 || !strings.Contains(log.String(), `"is":"stands still"`) {
		t.Fatalf("the first change is told at once, and once: %s", log.String())
	}
	flap(5*time.Minute, true)
	if n := lines(); n < 4 || n > 6 {
		t.Errorf("%d lines in 5 minutes:\n%s", n, log.String())
	}
	was := lines()
	flap(2*time.Minute, false)
	if all := strings.Split(strings.TrimSpace(log.String()), "\n"); lines() > was+2 || !strings.Contains(all[len(all)-1], `"is":"well"`) {
		t.Errorf("the last line should tell that it is well:\n%s", log.String())
	}
}
