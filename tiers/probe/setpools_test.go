package probe

import (
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestAPoolThatIsAddedIsProbedAndOneOfAnotherModelAnew(t *testing.T) {
	sim := simulated(t, vllmsim.Options{Seed: 3})
	s := backends(Backend{ID: "a", URL: sim.URL(), Up: true})
	p := start(t, Options{}, s, nil)
	until(t, p, "probed", good)
	all := func() []Backend { return *s.now.Load() }
	p.SetPools([]Pool{askable(Pool{Name: "p", Model: "sim", Backends: all}), askable(Pool{Name: "q", Model: "sim", Backends: all})})
	if !good(p.Capabilities("p")) {
		t.Error("what was known of a pool that stays is forgotten")
	}
	deadline := time.Now().Add(30 * time.Second)
	for !good(p.Capabilities("q")) {
		if time.Now().After(deadline) {
			t.Fatalf("the added pool was not probed: %+v", p.Capabilities("q"))
		}
		<-time.After(time.Millisecond)
	}
	s.become() // nobody to probe
	p.SetPools([]Pool{askable(Pool{Name: "p", Model: "other", Backends: all})})
	if p.Capabilities("p") != nil || p.Capabilities("q") != nil {
		t.Errorf("what is known of another model, or of a pool that went: %+v, %+v", p.Capabilities("p"), p.Capabilities("q"))
	}
}
