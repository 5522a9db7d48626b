package pool

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// urls are so many backends.
func urls(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("http://10.0.%d.%d:8000", i/250, i%250))
	}
	return out
}

// conversation is a demand of a prompt of so many tokens.
func conversation(name string, tokens int) Demand {
	return Demand{PromptTokens: tokens, OutputTokens: 100, Parts: prefix.Head{Tenant: "t", First: []byte(name)}.Parts(4 * tokens)}
}

func TestTheNextTurnGoesWhereTheLastOneIsWarm(t *testing.T) {
	b := newBench(t, Options{Backends: urls(8)})
	b.tick(0, func(int) pressure.Reading { return works(4, 1) })
	where := map[string]string{}
	for turn := range 5 {
		for i := range 40 {
			name := fmt.Sprint(i)
			l := pick(t, b.Pool, conversation(name, 4000+200*turn))
			if was, ok := where[name]; ok && was != l.Backend() {
				t.Fatalf("turn %d of conversation %d went from %s to %s", turn, i, was, l.Backend())
			}
			where[name] = l.Backend()
			l.FirstToken()
			l.Done(50)
		}
	}
}

func TestOfHundredsOfBackendsAPickAlwaysSeesTheWarmOnes(t *testing.T) {
	for _, n := range []int{65, 200, 1000} {
		b := newBench(t, Options{Backends: urls(n)})
		b.tick(0, func(int) pressure.Reading { return works(4, 1) })
		set := *b.set.Load()
		for i := range 300 {
			d := conversation(fmt.Sprint(i), 4000)
			at := set[(i*7919)%n]
			b.ReceivePlacements([]prefix.Placement{{Key: d.key(), Backend: at.id, Tokens: 4000, Own: 4000, Cold: true}})
			l := pick(t, b.Pool, d)
			if l.backend != at {
				t.Fatalf("%d backends, pick %d: %s, warm is %s", n, i, l.Backend(), at.id)
			}
			l.Done(0)
		}
	}
}

func TestASampleHasWarmOnesHomesAndOthersAndEachOnce(t *testing.T) {
	b := newBench(t, Options{Backends: urls(300)})
	set := *b.set.Load()
	d := conversation("x", 4000)
	for i := range prefixPlaces {
		b.ReceivePlacements([]prefix.Placement{{Key: d.key(), Backend: set[i].id, Tokens: 4000, Own: 4000, Cold: true}})
	}
	seen := map[*backend]bool{}
	for turn := range uint64(400) {
		s := round{turn: turn}
		s.begin(b.Pool, &d)
		b.sample(&s, &d)
		once := map[*backend]bool{}
		for _, x := range s.backends {
			once[x], seen[x] = true, true
		}
		if len(once) != len(s.backends) || len(once) > maxCandidates {
			t.Fatalf("%d backends, %d of them different", len(s.backends), len(once))
		}
		for i := range prefixPlaces {
			if !once[set[i]] {
				t.Fatalf("turn %d: the warm backend %d is not looked at", turn, i)
			}
		}
	}
	if len(seen) != len(set) {
		t.Errorf("only %d of %d are ever looked at", len(seen), len(set))
	}
}

const prefixPlaces = 16 // a part is known on so many backends at most

func TestWhereNoneOfTheSampleMayBeUsedAllAreLookedAt(t *testing.T) {
	b := newBench(t, Options{Backends: urls(400)})
	last := (*b.set.Load())[399]
	// All but one have a cache that the prompt cannot fit.
	b.tick(0, func(i int) pressure.Reading {
		r := works(1, 1)
		if i != 399 {
			r.Blocks = 11
		}
		return r
	})
	for i := range 100 {
		l := pick(t, b.Pool, conversation(fmt.Sprint(i), 4000))
		if l.backend != last {
			t.Fatal(l.Backend())
		}
		l.Done(0)
	}
	_, err := b.pick(Demand{PromptTokens: 4000, Exclude: []string{last.id}})
	if e, ok := errors.AsType[*NoBackendError](err); !ok || e.Total != 400 || e.Full != 399 || e.Excluded != 1 {
		t.Errorf("got %v", err)
	}
}

func TestAPickAllocatesNothing(t *testing.T) {
	if racing {
		t.Skip("the race detector allocates")
	}
	for _, n := range []int{8, 300} {
		b := newBench(t, Options{Backends: urls(n), Fleet: &quiet{}})
		b.tick(0, func(int) pressure.Reading { return works(4, 1) })
		d := conversation("x", 4000)
		var l Lease
		if allocs := testing.AllocsPerRun(500, func() {
			if err := b.PickInto(&l, &d); err != nil {
				t.Fatal(err)
			}
			l.Done(0)
		}); allocs > 0 {
			t.Errorf("%d backends: %v allocations", n, allocs)
		}
	}
}

// quiet is a fleet that takes everything and keeps nothing.
type quiet struct{ fakeFleet }

func (*quiet) Place(string, []prefix.Placement) {}

func TestPicksThatAvoidAnEvictionAreCounted(t *testing.T) {
	full := func(i int) pressure.Reading {
		r := works(4, 1)
		if i == 0 {
			r.KVUsage = 0.999
		}
		return r
	}
	roomy := func(int) pressure.Reading { return works(4, 1) }
	for name, c := range map[string]struct {
		reading func(int) pressure.Reading
		drained bool
		limit   Admission
		want    float64
	}{
		"one is full":                  {full, false, Admission{}, 5}, // of ten picks, five were its turn
		"one is full, and has a limit": {full, false, Admission{MaxUsage: 0.85}, 5},
		"one is full, by usage alone":  {full, false, Admission{MaxUsage: 0.85, Now: true}, 5},
		"both have room":               {roomy, false, Admission{MaxUsage: 0.85}, 0},
		"the full one is out anyway":   {full, true, Admission{MaxUsage: 0.85}, 0},
	} {
		b := newBench(t, Options{Backends: []string{"http://a", "http://b"}, Registerer: prometheus.NewPedanticRegistry()})
		b.tick(0, c.reading)
		if c.drained {
			b.Drain("a", "x", 0)
		}
		for range 10 {
			pick(t, b.Pool, Demand{PromptTokens: 4000, Admission: c.limit}).Done(0)
		}
		if n := testutil.ToFloat64(b.prevented); n != c.want {
			t.Errorf("%s: %v picks are counted, want %v", name, n, c.want)
		}
	}
}
