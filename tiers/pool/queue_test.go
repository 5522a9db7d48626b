package pool

import (
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pool/estimate"
	"github.com/foregate/foregate/tiers/pressure"
)

// busy is a pool of two backends of which the first, a, has begun to compute a prompt
// of ours, and both have readings that began after it: a runs one request, b none.
func busy(t *testing.T) (p *Pool, now *time.Time, l *Lease) {
	t.Helper()
	clock := time.Unix(1_800_000_000, 0)
	p = fixed(t, Options{Now: func() time.Time { return clock }})
	idle := pressure.Reading{BlockSize: 16, Blocks: 1001}
	p.give(0, idle)
	p.give(1, idle)
	l = pick(t, p, Demand{PromptTokens: 4000, OutputTokens: 100, Exclude: []string{(*p.set.Load())[1].id}})
	clock = clock.Add(100 * time.Millisecond)
	running := idle
	running.Running, running.KVUsage = 1, 0.25
	p.give(0, running)
	p.give(1, idle)
	return p, &clock, l
}

// taken says how many of eight picks, each given back at once, fell on backend a.
func taken(t *testing.T, p *Pool) int {
	t.Helper()
	n := 0
	for range 8 {
		l := pick(t, p, Demand{PromptTokens: 4000})
		if l.backend == (*p.set.Load())[0] {
			n++
		}
		l.Done(0)
	}
	return n
}

// looked are the candidates of a pick as of now.
func looked(p *Pool) []candidate {
	var r round
	r.begin(p, &Demand{}, *p.set.Load())
	p.locked(func() { p.fill(&r) })
	return r.cands
}

func TestAPromptThatIsBeingComputedIsAQueueThoughItsReadingSaysRunning(t *testing.T) {
	p, _, _ := busy(t)
	if n := taken(t, p); n > 0 {
		t.Errorf("%d of 8 picks wait behind a prompt of 4,000 tokens while the other backend is idle", n)
	}
}

func TestWhatIsLeftOfItGoesWithTime(t *testing.T) {
	p, now, _ := busy(t)
	// 4,000 tokens at the 4,000 tokens/s that are believed at first: nothing is left.
	*now = now.Add(900 * time.Millisecond)
	same := pressure.Reading{BlockSize: 16, Blocks: 1001}
	p.give(0, same)
	p.give(1, same)
	if n := taken(t, p); n != 4 {
		t.Errorf("%d of 8 picks, want them in turn: both are as free", n)
	}
}

func TestNobodyIsBelievedToBeMuchFasterOrSlowerThanThePool(t *testing.T) {
	p := fixed(t, Options{Backends: []string{"http://a:8000", "http://b:8000", "http://c:8000", "http://d:8000"}})
	set := *p.set.Load()
	set[0].speed.Prefill = 1.0 / 40_000 // found every prompt in its cache
	set[3].speed.Prefill = 1.0 / 400    // was measured behind a queue that nobody saw
	cands := looked(p)
	mean := (1.0/40_000 + 2.0/estimate.DefaultPrefill + 1.0/400) / 4
	for i, want := range []float64{1 / (estimate.Fastest * mean), 1 / (estimate.Fastest * mean), 1 / (estimate.Fastest * mean), 1 / (estimate.Slowest * mean)} {
		if got := cands[i].prefillRate; got < want*0.999 || got > want*1.001 {
			t.Errorf("backend %d: %v tokens/s, want %v", i, got, want)
		}
	}
}
