package main

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestRedisThatDiesFreezesAndReturnsFailsNoRequestAndEachReplicaReadsForItselfMeanwhile(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	w := newFleet(t, 8)
	l := startTraffic(t, 24, w.replicas...)
	shared, _, _ := w.scrapes(t, time.Second)
	t.Logf("shared: each backend is scraped %.1f times a second", shared)
	outage := func(what string, begin, end func()) {
		t.Helper()
		modes := make([][]string, len(w.replicas)) // as they follow each other
		look := func() { w.noteModes(t, modes) }
		look()
		began := time.Now()
		begin()
		within(t, 5*time.Second, what+": every replica is alone", func() bool { look(); return inMode(modes, "local") })
		alone := time.Since(began)
		rate, most, slowest := w.scrapes(t, 1500*time.Millisecond)
		t.Logf("%s: each backend is scraped %.1f times a second", what, rate)
		promised(t, "the oldest reading", most, fresh, slowest)
		if rate < 1.5*shared && slowest < tooBusy {
			t.Errorf("%s: each backend is scraped %.1f times a second by three replicas, each for itself", what, rate)
		}
		end()
		began = time.Now()
		within(t, 5*time.Second, what+" is over: every replica shares", func() bool { look(); return inMode(modes, "shared") })
		t.Logf("%s: alone after %v, shared %v after its end; modes %v", what, alone, time.Since(began), modes)
		for i, m := range modes {
			if m[0] != "shared" || !slices.Contains(m, "local") || m[len(m)-1] != "shared" {
				t.Errorf("%s: replica %d went through the modes %v", what, i, m)
			}
		}
	}
	outage("Redis is dead", w.redis.kill, func() { w.redis.start(t) })
	outage("Redis is frozen", func() { w.redis.signal(t, syscall.SIGSTOP) }, func() { w.redis.signal(t, syscall.SIGCONT) })
	eventually(t, "the replicas are three again", func() bool { return w.all(func(p *process) bool { return shares(t, p, 3) }) })
	if rate, _, _ := w.scrapes(t, 2*time.Second); rate > 1.5*2 {
		t.Errorf("after its return each backend was scraped %.1f times a second", rate)
	}
	l.faultless(t)
}

// noteModes adds each replica's mode to those that it went through.
func (w *fleetWorld) noteModes(t *testing.T, modes [][]string) {
	t.Helper()
	for i, p := range w.replicas {
		mode := fleetMode(p.metrics(t))
		if n := len(modes[i]); n == 0 || modes[i][n-1] != mode {
			modes[i] = append(modes[i], mode)
		}
	}
}

// inMode reports whether a mode is the last one of all.
func inMode(modes [][]string, mode string) bool {
	for _, m := range modes {
		if m[len(m)-1] != mode {
			return false
		}
	}
	return true
}

// tooBusy is a look that takes so long that nothing can be said of how often anything
// happens.
const tooBusy = 150 * time.Millisecond

// scrapes tells how often each backend is scraped a second, by all replicas together,
// and how old a reading grows meanwhile.
func (w *fleetWorld) scrapes(t *testing.T, d time.Duration) (rate float64, most, slowest time.Duration) {
	t.Helper()
	before, _ := w.count("/metrics")
	began := time.Now()
	slowest = during(d, func() { most = max(most, oldest(t, w.replicas...)) })
	after, _ := w.count("/metrics")
	return float64(after-before) / float64(len(w.sims)) / time.Since(began).Seconds(), most, slowest
}
