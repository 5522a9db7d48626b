package pool

import (
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/prefix"
)

// fakeFleet is a fleet that notes what it is told.
type fakeFleet struct {
	alone
	known  int
	placed []prefix.Placement
}

func (f *fakeFleet) Replicas() int { return f.known }
func (f *fakeFleet) Place(_ string, placements []prefix.Placement) {
	f.placed = append(f.placed, placements...)
}

func (b *bench) drainOf(i int) string { return b.drained((*b.set.Load())[i]) }

func TestADrainedBackendGetsNoNewRequestsAndKeepsThoseItHas(t *testing.T) {
	b := newBench(t, Options{})
	l := pick(t, b.Pool, Demand{Exclude: []string{"b", "c", "d"}})
	b.ReceiveDrains(map[string]string{"a": "upgrade", "nobody": "x"})
	if b.picks(40) > 0 {
		t.Error("picked while drained")
	}
	s := b.Snapshot()[0]
	if s.State != StateDrained || s.Why != "upgrade" || s.InFlight != 1 || b.drainOf(1) != "" {
		t.Errorf("got %+v", s)
	}
	l.Done(1)
	b.ReceiveDrains(map[string]string{"b": "other"})
	if b.drainOf(0) != "" || b.drainOf(1) != "other" || b.first().health.ramp(b.now) != minRamp {
		t.Errorf("%q, %q, ramp %v", b.drainOf(0), b.drainOf(1), b.first().health.ramp(b.now))
	}
}

func TestHearIgnoresOldReadingsAndUnknownBackends(t *testing.T) {
	b := newBench(t, Options{})
	r := works(4, 10)
	r.At = b.now
	if !b.ReceiveReading("a", r) || b.ReceiveReading("nobody", r) {
		t.Error("known and unknown")
	}
	for _, age := range []time.Duration{0, time.Second, time.Hour} {
		old := works(99, 99)
		old.At = b.now.Add(-age)
		if !b.ReceiveReading("a", old) || b.first().reading.Running != 4 {
			t.Errorf("%v old: %+v", age, b.first().reading)
		}
	}
	// That another replica reaches it does not say that this one does.
	l := pick(t, b.Pool, Demand{Exclude: []string{"b", "c", "d"}})
	l.ReportRefused(nil)
	b.now = b.now.Add(time.Second)
	r.At = b.now
	if b.ReceiveReading("a", r); b.Snapshot()[0].State != StateDown || !b.ShouldScrape("a", false, b.now) {
		t.Error("up by another's word, or not looked at by this one")
	}
	b.Observe("a", r, nil)
	if b.Snapshot()[0].State == StateDown || b.first().health.ramp(b.now) != minRamp || b.ShouldScrape("a", false, b.now) {
		t.Error("not up by its own, or at once in full")
	}
}

func TestPlacementsAreToldAndHeardByID(t *testing.T) {
	var fleet fakeFleet
	b := newBench(t, Options{Fleet: &fleet})
	parts := prefix.Head{Tenant: "t", System: make([]byte, 2000), First: []byte("x")}.Parts(8000)
	l := pick(t, b.Pool, Demand{PromptTokens: 4000, Parts: parts})
	if len(fleet.placed) != 2 || fleet.placed[1].Backend != l.Backend() || !fleet.placed[0].Cold {
		t.Fatalf("told %+v", fleet.placed)
	}
	other := newBench(t, Options{Backends: []string{"http://d", "http://c", "http://b", "http://a", "http://e"}})
	other.ReceivePlacements(append(fleet.placed, prefix.Placement{Key: 5, Backend: "nobody", Tokens: 900, Own: 900, Cold: true}))
	if m := pick(t, other.Pool, Demand{PromptTokens: 4000, Parts: parts}); m.Backend() != l.Backend() {
		t.Errorf("placed on %s, the other replica picks %s", l.Backend(), m.Backend())
	}
}
