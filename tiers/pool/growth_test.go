package pool

import (
	"math"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

func TestASharedPrefixCountsOnceWhileItIsInUseAndAgainAfter(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	b.tick(0, func(int) pressure.Reading { return works(0, 1) })
	d := func(i int) Demand {
		d := prompted("a system prompt", i)
		d.Parts[0].Share = 0.75
		return d
	}
	first := pick(t, b.Pool, d(1))
	if first.request.Totals().PromptTokens != 1000 || first.request.Shared != 0 {
		t.Fatalf("the first holds %d of its 1000 tokens", first.request.Totals().PromptTokens)
	}
	second, third := pick(t, b.Pool, d(2)), pick(t, b.Pool, d(3))
	for _, l := range []*Lease{second, third} {
		if l.request.Totals().PromptTokens != 250 || l.request.Shared != 750 {
			t.Errorf("holds %d beside the first", l.request.Totals().PromptTokens)
		}
	}
	same := pick(t, b.Pool, d(1)) // all of it, up to what the engine computes anew
	if same.request.Totals().PromptTokens > 250 {
		t.Errorf("the same prompt holds %d", same.request.Totals().PromptTokens)
	}
	other := pick(t, b.Pool, prompted("another system prompt", 1))
	if other.request.Totals().PromptTokens != 1000 {
		t.Errorf("another holds %d", other.request.Totals().PromptTokens)
	}
	for _, l := range []*Lease{first, second, third, same} {
		l.Done(1)
	}
	again := pick(t, b.Pool, d(4)) // it is warm, but nobody holds it: it may have to be taken from what is free
	if again.request.Totals().PromptTokens != 1000 || again.request.Totals().Queued != 250 {
		t.Errorf("after their end it holds %d and computes %d", again.request.Totals().PromptTokens, again.request.Totals().Queued)
	}
}

func TestWhatOtherReplicasUseOfAPrefixIsAsLikelyAsWhatWeDo(t *testing.T) {
	fleet := fakeFleet{known: 1}
	b := newBench(t, Options{Backends: []string{"http://a"}, Fleet: &fleet})
	b.tick(0, func(int) pressure.Reading { return works(0, 1) })
	b.inUse = 0.5
	d := func(i int) Demand {
		d := prompted("a system prompt", i)
		d.Parts[0].Share = 0.75
		return d
	}
	pick(t, b.Pool, d(1)).Done(1)
	for n, others := range map[int]float64{1: 0, 2: 0.5, 3: 0.75} {
		fleet.known, b.inUse = n, 0.5
		l := pick(t, b.Pool, d(2+n))
		cached := 1000 - l.request.Totals().Queued
		if want := int(others * float64(cached)); cached == 0 || l.request.Shared != want {
			t.Errorf("%d replicas: %d of %d tokens are shared, want %d", n, l.request.Shared, cached, want)
		}
		l.Done(1)
	}
}

func TestWhatOthersHoldIsGuessedByReplicasAndByTheQueue(t *testing.T) {
	fleet := fakeFleet{known: 1}
	b := newBench(t, Options{Backends: []string{"http://a"}, Fleet: &fleet})
	b.tick(0, func(int) pressure.Reading { return works(0, 1) })
	held := func() float64 { return looked(b.Pool)[0].OthersTokens }
	if held() != 0 {
		t.Errorf("nobody is there, and holds %v", held())
	}
	fleet.known = 3
	pick(t, b.Pool, Demand{PromptTokens: 2000})
	if got := held(); got != 0 {
		t.Errorf("one request of ours is taken for a sign of theirs: %v", got)
	}
	for range 3 { // that no reading can know of yet
		pick(t, b.Pool, Demand{PromptTokens: 2000})
	}
	for n, want := range map[int]float64{1: 0, 2: 6000, 3: 12_000} {
		fleet.known = n
		if got := held(); math.Abs(got-want) > 1e-6 {
			t.Errorf("%d replicas: others hold %v, want %v", n, got, want)
		}
	}
	// A reading that knows ours and shows two more that wait: they are others'.
	fleet.known = 1
	b.tick(time.Second, func(int) pressure.Reading {
		r := works(0, 2)
		r.Waiting = 6
		return r
	})
	if got := held(); math.Abs(got-4000) > 1e-6 {
		t.Errorf("two that wait hold %v, want 4000", got)
	}
	// Of two engines behind one URL each has half.
	b.tick(time.Second, func(int) pressure.Reading {
		r := works(0, 3)
		r.Waiting, r.Engines = 6, 2
		return r
	})
	if got := held(); math.Abs(got-2000) > 1e-6 {
		t.Errorf("at one of two engines they hold %v, want 2000", got)
	}
}

func TestRequestsOfOthersAreExpectedToGrowAsOursDo(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	for range 400 {
		b.outputs.Learn(-1, 0, 300)
	}
	reading := func(running int) {
		b.tick(time.Second, func(int) pressure.Reading { return works(running, float64(running)) })
	}
	reading(10)
	half := 10 * 16.0 / 2 // a last block each
	if got := looked(b.Pool)[0].Growth; math.Abs(got-(10*b.meanOutput()/2+half)) > 1e-6 {
		t.Errorf("ten of others grow by %v", got)
	}
	l := pick(t, b.Pool, Demand{PromptTokens: 100, MaxOutput: 100})
	reading(1)
	alone := looked(b.Pool)[0]
	reading(10)
	if all := looked(b.Pool)[0]; math.Abs(all.Growth-10*alone.Growth) > 1e-6 || all.Margin < alone.Margin {
		t.Errorf("ours grows by %v, ten like it by %v", alone.Growth, all.Growth)
	}
	l.Done(0)
}

func TestPromptsThatAreBeingComputedCountUntilAReadingMayShowThem(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	b.tick(0, func(int) pressure.Reading { return works(0, 1) })
	pick(t, b.Pool, Demand{PromptTokens: 8000})
	l := pick(t, b.Pool, Demand{PromptTokens: 2000})
	for ms, want := range map[int]float64{0: 10_000, 100: 10_000} { // no reading came
		b.now = b.now.Add(time.Duration(ms) * time.Millisecond)
		if got := looked(b.Pool)[0].OwnPartly; got != want {
			t.Errorf("%v are not computed, want %v", got, want)
		}
	}
	b.tick(900*time.Millisecond, func(int) pressure.Reading { return works(2, 2) })
	// 1 s at 4,000 tokens/s.
	if got := looked(b.Pool)[0].OwnPartly; math.Abs(got-6000) > 1 {
		t.Errorf("%v are not computed after a second", got)
	}
	l.Done(0)
	if got := looked(b.Pool)[0].OwnPartly; math.Abs(got-4000) > 1 {
		t.Errorf("%v are not computed when the second has left", got)
	}
}
