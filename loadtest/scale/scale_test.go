package scale

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// needRedis skips a test on machines without Redis.
func needRedis(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH; make redis installs it")
	}
}

func TestARealFleetIsCountedByRedisAndLearnsOfChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 seconds")
	}
	needRedis(t)
	f := Fleet{Replicas: 3, Pools: 2, Backends: 12, Requests: 40, Limited: true, Cached: true}
	g, err := start(t.Context(), f, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer g.stop()
	cost, rate, err := g.measure(t.Context(), 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f requests/s, %+v", rate, cost)
	// What package tiers/fleet alone executes, by its comment: R/I·(10+5P) + 2B/S. Ticks vary by a tenth.
	if low := 0.8 * (3/.5*(10+5*2) + 2*12/.5); cost.Commands < low || cost.Scripts < float64(f.Replicas) || cost.Scripts > cost.Commands {
		t.Errorf("%+v, want at least %.0f commands", cost, low)
	}
	if cost.In <= 0 || cost.Out <= 0 || cost.Exec <= 0 || cost.Busy <= 0 || rate < 20 {
		t.Errorf("%v requests/s, %+v", rate, cost)
	}
	list, err := g.converge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	changes := map[string]Converged{}
	for _, c := range list {
		changes[c.Change] = c
		if c.Worst < c.Median || c.Worst > 10 {
			t.Errorf("%+v", c)
		}
	}
	if len(changes) != 4 || changes["the end of a replica without a word"].Rounds != 2 {
		t.Errorf("%+v", list)
	}
}

func TestTheArithmeticIsThatOfALargerFleet(t *testing.T) {
	if os.Getenv("FOREGATE_PROOFS") != "long" {
		t.Skip("takes two minutes: FOREGATE_PROOFS=long")
	}
	needRedis(t)
	r, err := Run(t.Context(), Options{
		Window: 5 * time.Second, Check: Fleet{Replicas: 6, Pools: 3, Backends: 60, Requests: 150, Limited: true, Cached: true}, Say: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Text())
	if worst := r.Check.worst(); worst > .35 {
		t.Errorf("a figure is wrong by %.2f: %+v", worst, r.Check)
	}
}

func TestARequestThatFailsEndsAMeasurement(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	needRedis(t)
	g, err := start(t.Context(), Fleet{Replicas: 1, Pools: 1, Backends: 1, Requests: 20}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer g.stop()
	if err := g.engines[0].Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.measure(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), "requests failed, the first with") {
		t.Errorf("%v", err)
	}
}

func TestTheTextHasARowOfEachForecast(t *testing.T) {
	r := &Report{Model: known, Scrape: Scrape{Interval: .5, Bytes: 45_000}}
	f := Fleet{Replicas: 8, Pools: 3, Backends: 80, Requests: 100, Limited: true, Cached: true}
	r.Check = Check{Fleet: f, Predicted: known.Predict(f).Total(), Measured: known.Predict(f).Total().times(.5)}
	for _, f := range growing() {
		r.Forecasts = append(r.Forecasts, r.forecast(f))
	}
	text := r.Text()
	for _, want := range []string{"Compared with 8 replicas, 3 pools, 80 backends, 100 requests/s", "It took 0.50 of the CPU time", "| 50 | 10 | 500 | 20000 | limits, cache |", "| 50 | 10 | 500 | 20000 | neither |", "| 1000 | 45.0 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if _, err := r.JSON(); err != nil {
		t.Error(err)
	}
}
