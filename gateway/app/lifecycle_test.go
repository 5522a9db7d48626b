package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/gateway/stores"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/pressure"
	"github.com/foregate/foregate/tiers/refit"
)

// parsed is a configuration with a route to a pool; its backends do not answer.
func parsed(t *testing.T, pools, target string) *config.File {
	t.Helper()
	f, err := config.Parse("test.yaml", []byte("listen: 127.0.0.1:0\npools:\n"+pools+"routes: [{model: m, target: "+target+"}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// made is a replica that has not started, and its log.
func made(t *testing.T, f *config.File) (*App, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	registry := prometheus.NewRegistry()
	a, err := New(t.Context(), Options{File: f, Logger: zerolog.New(zerolog.SyncWriter(log)), Registerer: registry, Gatherer: registry})
	if err != nil {
		t.Fatal(err)
	}
	return a, log
}

const unreachable = "  %s: {model: m, backends: ['http://127.0.0.1:9']}\n"

func poolNamed(name string) string { return strings.Replace(unreachable, "%s", name, 1) }

func TestAPanicOfAComponentIsLoggedWithItsStackAndTheComponentStartedAgain(t *testing.T) {
	a, log := made(t, parsed(t, poolNamed("p"), "p"))
	runs := make(chan int, 2)
	n := 0
	c := &component{name: "flaky", run: func(ctx context.Context) error {
		n++
		runs <- n
		if n == 1 {
			panic("a bug in the background")
		}
		<-ctx.Done()
		return nil
	}}
	a.start(c)
	for <-runs != 2 {
	}
	c.end()
	for _, want := range []string{`"component":"flaky"`, `"panic":"a bug in the background"`, "lifecycle_test.go", `"again_in":1000`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q: %s", want, log)
		}
	}
	const counted = "# HELP foregate_panics_total Panics that were recovered.\n# TYPE foregate_panics_total counter\nforegate_panics_total 1\n"
	if err := testutil.GatherAndCompare(a.Gatherer, strings.NewReader(counted), "foregate_panics_total"); err != nil {
		t.Error(err)
	}
}

func TestComponentsEndInReverse(t *testing.T) {
	a, _ := made(t, parsed(t, poolNamed("p"), "p"))
	var mu sync.Mutex
	var ended string
	for _, name := range []string{"a", "b", "c"} {
		c := &component{name: name, run: func(ctx context.Context) error {
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			ended += name
			return nil
		}}
		a.start(c)
		a.running = append(a.running, c)
	}
	a.Stop(t.Context())
	a.Stop(t.Context())
	if ended != "cba" {
		t.Errorf("ended in the order %s", ended)
	}
}

func TestAPoolThatTheConfigurationNoLongerHasEndsAfterItsLastRequest(t *testing.T) {
	a, _ := made(t, parsed(t, poolNamed("old"), "old"))
	old, lease := a.Pool("old"), &pool.Lease{}
	if err := old.PickInto(lease, &pool.Demand{}); err != nil {
		t.Fatal(err)
	}
	if err := a.replaceRouting(parsed(t, poolNamed("new"), "new")); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, step := range []struct {
		after time.Duration
		idle  bool
		kept  int
	}{{0, false, 1}, {minRetired + time.Second, false, 1}, {time.Second, true, 1}, {minRetired + time.Second, true, 0}} {
		if step.idle {
			lease.Done(1)
		}
		if a.endRetired(now.Add(step.after)); len(a.retired) != step.kept {
			t.Errorf("%+v: %d pools serve their last requests", step, len(a.retired))
		}
	}
	if names := a.queueNames(a.routing.Load()); len(names) != 1 || names[0] != "new" {
		t.Errorf("requests may wait for %v", names)
	}
}

func TestAProbeSaysWhatAFailureMeans(t *testing.T) {
	for code, want := range map[int]breaker.Outcome{
		http.StatusOK: breaker.Success, http.StatusBadRequest: breaker.Success,
		http.StatusTooManyRequests: breaker.Backpressure, http.StatusInternalServerError: breaker.Fault,
		http.StatusServiceUnavailable: breaker.Fault,
		http.StatusUnauthorized:       breaker.Fault, http.StatusForbidden: breaker.Fault,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, a *http.Request) {
			switch {
			case a.Method == http.MethodPost:
				w.WriteHeader(code)
			case code == http.StatusOK:
				w.WriteHeader(http.StatusNotFound) // it tells nothing of its health
			}
		}))
		a, id := probing(t, srv.URL)
		if got := outcome(a.probe(t.Context(), "only", id)); got != want {
			t.Errorf("status %d is a %v, want %v", code, got, want)
		}
		srv.Close()
		if got := outcome(a.probe(t.Context(), "only", id)); got != breaker.Unreachable {
			t.Errorf("a closed port is a %v", got)
		}
		if got := outcome(a.probe(t.Context(), "only", "nobody")); got == breaker.Success {
			t.Error("who is not there is well")
		}
	}
}

// probing is a replica with one backend.
func probing(t *testing.T, url string) (a *App, id string) {
	t.Helper()
	p, err := pool.New(pool.Options{Name: "only", Model: "m", Backends: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	a = &App{}
	a.routing.Store(&routing{pools: map[string]*servedPool{"only": {Pool: p}}})
	return a, p.Snapshot()[0].ID
}

func TestADraftPoolWhoseLastBackendHasAnOpenBreakerReachesNobody(t *testing.T) {
	shut := true
	p, err := pool.New(pool.Options{
		Name: "p", Model: "m", Backends: []string{"http://a"},
		Open: func(string) bool { return false }, Shut: func(string) bool { return shut }, // kept open for want of others
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Observe(p.Snapshot()[0].ID, pressure.Reading{}, nil)
	if draft, target := reaches(p, p); draft != pool.Down || target != pool.Ready {
		t.Errorf("drafts %v, target %v", draft, target)
	}
	if draft, target := reaches(nil, p); draft != pool.Ready || target != pool.Ready {
		t.Errorf("without a draft pool: drafts %v, target %v", draft, target)
	}
	shut = false
	if draft, _ := reaches(p, p); draft != pool.Ready {
		t.Errorf("its breaker is closed: %v", draft)
	}
}

// refitting is as much of a replica as refits need.
func refitting(t *testing.T, s stores.Stores) *App {
	t.Helper()
	a := &App{Options: Options{Stores: s, Logger: zerolog.Nop()}}
	a.routing.Store(&routing{file: &config.File{Routes: []config.Route{{Model: "chat", Draft: "small"}, {Model: "without"}}}})
	a.makeSettings(t.Context())
	a.makeEvidence()
	return a
}

func TestRequestsGoByTheFittedScoreInForceUnlessRefitsAreOff(t *testing.T) {
	client := redistest.Client(t, redistest.Background(redistest.Start(t).Addr))
	a := refitting(t, stores.Stores{Control: client, Settings: client})
	if rules := a.refitRules(); len(rules) != 1 || rules["chat"].MaxDisagreement != .1 { // without a draft there is no score
		t.Fatalf("%+v", rules)
	}
	if cfg := a.tiersConfig("chat"); cfg.Accept.ScoreVersion() != 0 || cfg.Accept.ScoreMap != nil {
		t.Errorf("version %d of nothing", cfg.Accept.ScoreVersion())
	}
	live := accept.ScoreMap{Version: 3, Bias: 2, Weights: accept.Features{1}}
	record := refit.Progress{Live: live, Last: 4, Fitted: time.Now(), Samples: 600}.Encode()
	if done, err := a.Evidence.WriteRefit(t.Context(), "chat", "", record); !done || err != nil {
		t.Fatal(done, err)
	}
	a.refits.Mine = func(string, string) bool { return true }
	a.refits.Round(t.Context())
	if cfg := a.tiersConfig("chat"); cfg.Accept.ScoreVersion() != 3 || cfg.Accept.ScoreMap == nil || !reflect.DeepEqual(*cfg.Accept.ScoreMap, live) {
		t.Errorf("version %d, %+v", cfg.Accept.ScoreVersion(), cfg.Accept.ScoreMap)
	}
	desk := settings.NewStore(client, []string{"chat"})
	if _, err := desk.Set(t.Context(), settings.Edit{}, map[string]string{"risk.refit": "off"}, nil); err != nil {
		t.Fatal(err)
	}
	_ = a.Settings.Poll(t.Context())
	if cfg := a.tiersConfig("chat"); cfg.Accept.ScoreVersion() != 0 || cfg.Accept.ScoreMap != nil || len(a.refitRules()) != 0 || a.refits.Progress("chat").Candidate.Version != 0 {
		t.Error("refits are off")
	}
}

func TestWhatAPoolServesIsItsModelAndRevision(t *testing.T) {
	f, err := config.Parse("f", []byte(`listen: 127.0.0.1:0
pools:
  small: {model: s, revision: "2026-01", backends: ["http://h:1"]}
  large: {model: l, backends: ["http://h:2"]}
routes: [{model: both, draft: small, target: large}, {model: alone, target: small}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []tiers.Served{{Draft: "s 2026-01", Target: "l"}, {Target: "s 2026-01"}} {
		if got := served(f, f.Routes[i]); got != want {
			t.Errorf("%s: %+v, want %+v", f.Routes[i].Model, got, want)
		}
	}
}

func TestConnectionsLeaveFilesForBackendsAndOperatorsAndMemoryForRequests(t *testing.T) {
	const none = math.MaxInt64
	for _, c := range []struct {
		files  int
		memory int64
		want   int
	}{
		{20000, none, 9808}, {1024, none, 320}, {100, none, minConns}, {1 << 20, 400 << 20, 10240}, {20000, 400 << 20, 9808}, {20000, 1 << 20, minConns},
	} {
		if got := maxConns(c.files, c.memory); got != c.want {
			t.Errorf("%d files and %d bytes: %d, want %d", c.files, c.memory, got, c.want)
		}
	}
}

// droppedLines asserts that a registry counts lines that were dropped: within 20 seconds, at least so many.
func droppedLines(t *testing.T, reg *prometheus.Registry, atLeast float64) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		switch n := families[0].GetMetric()[0].GetCounter().GetValue(); {
		case n >= atLeast:
			return
		case time.Now().After(deadline):
			t.Fatalf("%v lines were dropped, want %v", n, atLeast)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func TestALogThatNobodyReadsHoldsNobodyUpAndCountsWhatIsLost(t *testing.T) {
	a, w := io.Pipe() // blocks until read
	reg := prometheus.NewRegistry()
	lines, stop := NewLogWriter(w, reg)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for range 4 * maxQueuedLines {
			_, _ = lines.Write([]byte("a line\n"))
		}
		stop()
	}()
	select {
	case <-written:
	case <-time.After(20 * time.Second):
		t.Fatal("writing to a blocked log did not return")
	}
	go func() { _, _ = io.Copy(io.Discard, a) }()
	droppedLines(t, reg, 2*maxQueuedLines)
	_ = a.Close()
}

// shaky fails its first write.
type shaky struct {
	bytes.Buffer
	failed bool
}

func (s *shaky) Write(p []byte) (int, error) {
	if !s.failed {
		s.failed = true
		return 0, errors.New("no space left on device")
	}
	return s.Buffer.Write(p)
}

func TestALogThatFailedOnceIsWrittenAgainAndWhatWasLostIsCounted(t *testing.T) {
	var out shaky
	reg := prometheus.NewRegistry()
	lines, stop := NewLogWriter(&out, reg)
	for _, line := range []string{"one\n", "two\n"} {
		_, _ = lines.Write([]byte(line))
	}
	stop()
	droppedLines(t, reg, 1)
	if out.String() != "two\n" {
		t.Errorf("wrote %q", out.String())
	}
}
