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
