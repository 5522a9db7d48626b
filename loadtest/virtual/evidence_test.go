package virtual

import (
	"errors"
	"testing"
	"time"

	store "github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/risk"
)

// certified is a lab whose evidence has a certificate for a key, and the evidence as a replica sees it.
func certified(t *testing.T, settings string) (l *lab, view *evidenceView, k risk.Key) {
	t.Helper()
	s := scenario(t, replace(routing, "speculation.mode: confidence", "speculation.mode: risk, "+settings, ", router: 0.25", ""))
	l, err := newLab(s, &s.Cases[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.clock.End)
	k = risk.Key{Route: route, TrafficClass: "all_t0"}
	past := risk.Import{Grid: risk.Grid{3, 2, 1}, Epoch: risk.Epoch{Audits: 200, Tally: risk.Tally{N: [16]int{100, 150, 200}, K: [16]int{0, 0, 100}}}}
	if done, err := l.evidence.book.Certify(t.Context(), k, past); !done || err != nil {
		t.Fatal(done, err)
	}
	return l, l.replicas[0].seen, k
}

// pass has time pass.
func (l *lab) pass(d time.Duration) {
	over := false
	l.clock.After(d, func() { over = true })
	for !over {
		l.clock.Step()
	}
}

func TestACertificateOutlivesRedisByItsStaleness(t *testing.T) {
	l, view, k := certified(t, "risk.max_staleness: 30s")
	if v := view.View(k); !v.Serves() || v.Threshold != 2 {
		t.Fatalf("%+v", v)
	}
	l.redis.Lose()
	l.pass(29 * time.Second)
	if v := view.View(k); !v.Serves() || v.Threshold != 2 {
		t.Errorf("before it is stale: %+v", v)
	}
	l.pass(2 * time.Second)
	if v := view.View(k); v.Serves() || v.Version == 0 {
		t.Errorf("a stale view: %+v", v)
	}
	l.redis.Restore()
	l.pass(time.Second)
	if v := view.View(k); !v.Serves() {
		t.Errorf("with Redis again: %+v", v)
	}
}

func TestWithoutRedisNoAuditIsBookedAndCountsOfWarmupsAreToldAfterwards(t *testing.T) {
	l, view, k := certified(t, "risk.warmup: serve")
	d := view.View(k).Decide(k, risk.Sampling{Rate: 1}, 0)
	l.redis.Lose()
	if _, err := view.Open(t.Context(), risk.Audit{Decision: d, Ticket: "a", Score: 4}); !errors.Is(err, store.ErrAway) {
		t.Errorf("opened: %v", err)
	}
	if err := view.Close(t.Context(), k, "a", false); !errors.Is(err, store.ErrAway) {
		t.Errorf("closed: %v", err)
	}
	view.Drafted(k, 1, 1)
	l.pass(5 * time.Second)
	if v := view.View(k); v.Warmup.Began != 0 || v.Seen.IsZero() {
		t.Errorf("%+v", v)
	}
	l.pass(store.MaxUnsynced)
	if v := view.View(k); !v.Seen.IsZero() {
		t.Errorf("counts have waited for too long, and the view is used: %+v", v)
	}
	l.redis.Restore()
	l.pass(2 * time.Second)
	if v := view.View(k); v.Warmup.Began == 0 || v.Seen.IsZero() {
		t.Errorf("with Redis again: %+v", v)
	}
	if _, err := view.Open(t.Context(), risk.Audit{Decision: d, Ticket: "a", Score: 4}); err != nil {
		t.Error(err)
	}
}

func TestAThresholdThatIsSetForAWhileCountsForThatTime(t *testing.T) {
	s := scenario(t, replace(routing, "duration: 60s", "duration: 60s\naudits: 50\nchanges: [{at: 20s, for: 20s, settings: {speculation.threshold_nats: 0}}]",
		"speculation.mode: confidence", "speculation.mode: confidence, speculation.threshold_nats: 0.4", "{name: routed, router: 0.25}", "{name: fixed}, {name: risk, settings: {speculation.mode: risk}}"))
	l, err := newLab(s, &s.Cases[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	spent := map[float64]time.Duration{}
	l.inForce(l.sample.buckets()[0], func(_ int, c change, to time.Duration) { spent[c.threshold] += to - c.at })
	if spent[0] != 20*time.Second || spent[.4] != 40*time.Second {
		t.Errorf("%v", spent)
	}
}
