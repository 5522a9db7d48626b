package pool

import (
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

func TestAPoolTellsHowMuchOfAPromptOneOfItsBackendsHasCached(t *testing.T) {
	b := newBench(t, Options{Backends: urls(3)})
	b.tick(0, func(int) pressure.Reading { return works(4, 1) })
	turn := conversation("a", 4000)
	if got := b.Cached(&turn); got != 0 {
		t.Errorf("%d tokens before the first turn", got)
	}
	l := pick(t, b.Pool, turn)
	l.FirstToken()
	l.Done(50)
	next, other := conversation("a", 5000), conversation("b", 4000)
	if got := b.Cached(&next); got < 3500 || got > 4100 {
		t.Errorf("%d tokens of the next turn, after one of 4000", got)
	}
	if got := b.Cached(&other); got != 0 {
		t.Errorf("%d tokens of another conversation", got)
	}
	b.ReceiveDrains(map[string]string{l.Backend(): "x"})
	if got := b.Cached(&next); got != 0 {
		t.Errorf("%d tokens of the next turn, whose backend is drained", got)
	}
}

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
			b.ReceiveDrains(map[string]string{"a": "x"})
		}
		for range 10 {
			pick(t, b.Pool, Demand{PromptTokens: 4000, Admission: c.limit}).Done(0)
		}
		if n := testutil.ToFloat64(b.prevented); n != c.want {
			t.Errorf("%s: %v picks are counted, want %v", name, n, c.want)
		}
	}
}
