package app

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/tiers/pool"
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
