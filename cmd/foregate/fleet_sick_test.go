package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// snapping is a backend that can take to cutting every connection as soon as a request
// has come. Its listener stays.
type snapping struct {
	*vllmsim.Server
	url   string
	snaps atomic.Bool
	bites atomic.Int64 // requests of clients that it cut
}

func newSnapping(t *testing.T) *snapping {
	t.Helper()
	s := &snapping{Server: vllmsim.Start(t, vllmsim.Options{Model: fleetModel, Seed: simSeed})}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

// ServeHTTP lets the simulator answer, or nobody.
func (s *snapping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.snaps.Load() {
		s.Server.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == chat {
		s.bites.Add(1)
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = conn.(*net.TCPConn).SetLinger(0) // a reset, not an end
	_ = conn.Close()
}

func TestABackendThatDiesOrResetsIsLeftAndNoRequestThatHadNotBegunFails(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	w := &fleetWorld{}
	var urls []string
	for range 4 {
		s := vllmsim.Start(t, vllmsim.Options{Model: fleetModel, Seed: simSeed})
		w.sims, urls = append(w.sims, s), append(urls, s.URL())
	}
	bad := newSnapping(t)
	w.start(t, "backends: ["+strings.Join(append(urls, bad.url), ", ")+"]")
	w.settled(t)
	l := startTraffic(t, 24, w.replicas...)
	busy := func(s *vllmsim.Server) func() bool { return func() bool { return s.State().Running > 0 } }
	eventually(t, "the first backend is at work", busy(w.sims[0]))
	died := time.Now()
	if err := w.sims[0].Close(); err != nil {
		t.Fatal(err)
	}
	reached := asked(w.sims[0])
	eventually(t, "every replica knows that it is down", func() bool { return w.states(t, w.sims[0].URL(), "down") })
	t.Logf("all replicas knew after %v that it is down", time.Since(died))
	if n := asked(w.sims[0]); n != reached {
		t.Errorf("the dead backend was reached by %d requests", n-reached)
	}
	eventually(t, "the last backend is at work", busy(bad.Server))
	began := time.Now()
	bad.snaps.Store(true)
	var last time.Duration
	was, late := int64(0), int64(0)
	during(4*time.Second, func() {
		if n := bad.bites.Load(); n != was {
			if last = time.Since(began); last > 2*time.Second {
				late += n - was
			}
			was = n
		}
	})
	t.Logf("the backend that resets was asked %d times, %d of these after 2 s, the last time after %v", was, late, last)
	// A replica's breaker needs five failures, and a few more were under way by then. When
	// these come is another matter: a backend that was busy is not asked for a while.
	if was > int64(len(w.replicas))*(5+4) {
		t.Errorf("the backend that resets was asked %d times", was)
	}
	l.wellBegun(t)
}

func TestAnEngineThatHangsIsOutInTwoSecondsAndBackWhenItMakesStepsAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	// Without a breaker's help: it is to be the readings that tell.
	w := newFleet(t, 4, "breaker.max_failures", "1000", "timeout.target_first_token", "1500ms", "retry.budget", "1")
	l := startTraffic(t, 24, w.replicas...)
	sick := w.sims[1]
	eventually(t, "it is at work", func() bool { return sick.State().Running > 2 })
	hung := time.Now()
	if err := sick.SetFault(vllmsim.Fault{Hang: "engine"}); err != nil {
		t.Fatal(err)
	}
	known := time.Duration(0)
	last, slowest := lastAsked(sick, hung, 4*time.Second, func() {
		if known == 0 && w.states(t, sick.URL(), "suspect") {
			known = time.Since(hung)
		}
	})
	promised(t, "the last request that the engine was sent after it stood still", last, 2*time.Second, slowest)
	t.Logf("all replicas knew after %v", known)
	if known == 0 {
		t.Error("some replica does not say that the backend is suspect")
	}
	if err := sick.SetFault(vllmsim.Fault{}); err != nil {
		t.Fatal(err)
	}
	well, before := time.Now(), asked(sick)
	eventually(t, "it is up again", func() bool { return w.states(t, sick.URL(), "up") })
	t.Logf("all replicas say after %v that it is up again", time.Since(well))
	eventually(t, "it serves again", func() bool { return asked(sick) > before+3 })
	l.wellBegun(t)
}

func TestABackendThatRestartsColdGetsItsShareGradually(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	w := newFleet(t, 4, "breaker.open_duration", "500ms") // it is the ramp that is to be seen
	l := startTraffic(t, 24, w.replicas...)
	cold := w.sims[2]
	if err := cold.SetFault(vllmsim.Fault{Die: true, DownSeconds: 2}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is dead", func() bool { return !cold.State().Alive })
	eventually(t, "it is alive", func() bool { return cold.State().Alive })
	alive := time.Now()
	_, before := w.count(chat)
	eventually(t, "every replica knows that it is up", func() bool { return w.states(t, cold.URL(), "up") })
	t.Logf("all replicas knew after %v that it is back", time.Since(alive))
	share := func(d time.Duration) float64 {
		during(d, func() {})
		all, after := w.count(chat)
		for i := range before {
			all -= before[i]
		}
		n := after[2] - before[2]
		before = after
		t.Logf("it got %d of %d requests, its fair share is %d", n, all, all/4)
		return float64(n) / (float64(all) / 4)
	}
	// About half of its share, by what it may take and what it is sent for being idle; more
	// is luck.
	if got := share(2 * time.Second); got > 0.75 {
		t.Errorf("in its first 2 s it got %.2f of its fair share", got)
	}
	if got := share(3 * time.Second); got == 0 || got > 1.2 {
		t.Errorf("in the 3 s after that it got %.2f of its fair share", got)
	}
	l.wellBegun(t)
}

func TestABackendWhoseMetricsFreezeOrLieKeepsServingItsShare(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	w := newFleet(t, 4)
	l := startTraffic(t, 24, w.replicas...)
	frozen, idle := w.sims[0], w.sims[3]
	// Numbers that stand still are found out while they show work.
	eventually(t, "it is at work", func() bool { return frozen.State().Running > 2 })
	none := 0.0
	for s, f := range map[*vllmsim.Server]vllmsim.Fault{frozen: {Metrics: "frozen"}, idle: {KVUsage: &none}} {
		if err := s.SetFault(f); err != nil {
			t.Fatal(err)
		}
	}
	froze := time.Now()
	eventually(t, "a replica knows that it is the metrics that stand still", func() bool {
		return !w.all(func(p *process) bool { return !strings.Contains(p.sees(t)[frozen.URL()].Why, "it answers") })
	})
	t.Logf("a replica knew after %v that it is the metrics that stand still", time.Since(froze))
	_, before := w.count(chat)
	during(6*time.Second, func() {})
	all, after := w.count(chat)
	for i := range after {
		after[i] -= before[i]
		all -= before[i]
	}
	t.Logf("of %d requests the backends got %v", all, after)
	// A backend of which nothing is known is taken to be as busy as the others are on
	// average, and as much busier as this replica's own requests there are.
	for what, n := range map[string]int{"whose metrics are frozen": after[0], "that says it is empty": after[3]} {
		if got := float64(n) / (float64(all) / 4); got < 0.4 || got > 1.6 {
			t.Errorf("the backend %s got %.2f of its share", what, got)
		}
	}
	if !w.states(t, frozen.URL(), "up") || !w.states(t, idle.URL(), "up") {
		t.Error("a replica does not say that both are up")
	}
	l.faultless(t)
}
