package pool

import (
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

func TestABackendThatStaysKeepsItsStateWhenTheListChanges(t *testing.T) {
	p := fixed(t, Options{Backends: []string{"http://a", "http://b"}})
	p.give(0, pressure.Reading{KVUsage: .5, At: time.Now()})
	l := pick(t, p, Demand{})
	if err := p.SetBackends([]string{"http://c", "http://a"}); err != nil {
		t.Fatal(err)
	}
	all := p.Snapshot()
	if len(all) != 2 || all[0].ID != "c" || all[1].ID != "a" || all[1].Reading.KVUsage != .5 {
		t.Errorf("got %+v", all)
	}
	l.Done(3) // wherever it was
	for _, b := range p.Snapshot() {
		if b.InFlight != 0 {
			t.Errorf("%s still has %d requests", b.ID, b.InFlight)
		}
	}
}

func TestARunningPoolWatchesABackendThatIsAdded(t *testing.T) {
	metrics := func(usage string) string { return "vllm:kv_cache_usage_perc{} " + usage + "\n" }
	first, second := serve(t, metrics("0.25")), serve(t, metrics("0.75"))
	p, _ := run(t, Options{}, first)
	if err := p.SetBackends([]string{second.url()}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new backend is read", func() bool {
		all := p.Snapshot()
		return len(all) == 1 && all[0].Age != nil && all[0].Reading.KVUsage == .75
	})
}

func TestAPoolThatReplacesAnotherTakesItsDrains(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	old, fresh := fixed(t, Options{Now: clock}), fixed(t, Options{Now: clock})
	ids := []string{old.Snapshot()[0].ID, old.Snapshot()[1].ID}
	old.Drain(ids[0], "disk", time.Hour)
	old.ReceiveDrains(map[string]string{ids[1]: "spot"})
	fresh.TakeDrains(old)
	drained := func() (out [2]bool) {
		for i, b := range fresh.Snapshot() {
			out[i] = b.State == StateDrained
		}
		return out
	}
	if got := drained(); got != [2]bool{true, true} {
		t.Errorf("drained at once: %v", got)
	}
	now = now.Add(fleetWait)
	if got := drained(); got != [2]bool{true, false} {
		t.Errorf("drained when the fleet has said nothing: %v", got)
	}
	now = now.Add(time.Hour)
	if got := drained(); got != [2]bool{} {
		t.Errorf("drained after the hour: %v", got)
	}
}
