package pool

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

func TestSpansAreHalfOctavesWithoutGaps(t *testing.T) {
	if span(-3) != 0 || span(0) != 0 || span(1) != 0 {
		t.Error("less than two tokens are not in the first")
	}
	last := 0
	for n := 2; n < 1<<21; n++ {
		s := span(n)
		if s < last || s >= spans {
			t.Fatalf("%d is in span %d, and the one before in %d", n, s, last)
		}
		last = s
		// The end is beyond all of the span, by half of it at most, and a third at the second half.
		if end := spanEnd(s); end <= n || 2*end > 3*n+2 {
			t.Fatalf("%d is in span %d, which ends at %d", n, s, end)
		}
		if s != span(spanEnd(s)-1) || s == span(spanEnd(s)) && s < spans-1 {
			t.Fatalf("span %d does not end at %d", s, spanEnd(s))
		}
	}
	if s := span(math.MaxInt64); s != spans-1 {
		t.Errorf("the most is in span %d", s)
	}
}

// growing is one answer under way: what it holds now, and what it has left.
type growing struct{ held, left int }

// simulated is by how much answers fill a cache further at the worst moment, if all grow by a
// token a step and give everything back when nothing is left of them.
func simulated(all []growing) int {
	now, longest := 0, 0
	for _, g := range all {
		now += g.held
		longest = max(longest, g.left)
	}
	most := now
	for step := 1; step <= longest; step++ {
		sum := 0
		for _, g := range all {
			if g.left >= step {
				sum += g.held + step
			}
		}
		most = max(most, sum)
	}
	return most - now
}

// answer is a lease whose prompt holds so much, of whose answer so much has come and so much
// is expected.
func answer(prompt, came, output int) *Lease {
	l := &Lease{part: tally{held: prompt}, output: output, first: time.Unix(1, 0)}
	l.came.Store(int32(came))
	return l
}

func TestTheForecastIsTheSimulationWithWhatIsLeftRoundedUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 4))
	now := time.Unix(1_800_000_000, 0)
	truths, forecasts := 0.0, 0.0
	for range 500 {
		var u under
		var exact, rounded []growing
		for range rng.IntN(30) {
			came, output := rng.IntN(500), 1+rng.IntN(1+rng.IntN(1500))
			l := answer(rng.IntN(3000), came, output)
			u.start(l)
			left, _ := l.remaining(now, 0.02)
			exact = append(exact, growing{l.part.held + came, left})
			rounded = append(rounded, growing{l.part.held + came, spanEnd(span(left))})
		}
		got, truth := u.forecast(now, 0.02), simulated(exact)
		if int(got) != simulated(rounded) {
			t.Fatalf("forecast %v, simulated with half-octaves %d: %v", got, simulated(rounded), rounded)
		}
		if int(got) < truth {
			t.Fatalf("forecast %v, simulated %d: %v", got, truth, exact)
		}
		truths, forecasts = truths+float64(truth), forecasts+got
	}
	if forecasts > 1.5*truths {
		t.Errorf("forecast %v in all, simulated %v", forecasts, truths)
	}
}

func TestWhatIsLeftOfAnAnswer(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		came, output, most int
		left, generated    int
	}{
		"nothing came":              {0, 200, 0, 200, 0},
		"half came":                 {100, 200, 0, 100, 100},
		"it nears its length":       {170, 200, 0, 50, 170}, // lengths have long tails
		"it has passed its length":  {1000, 200, 0, 50, 1000},
		"its limit is near":         {170, 200, 180, 10, 170},
		"it is at its limit":        {180, 200, 180, 0, 180},
		"more chunks than tokens":   {300, 200, 180, 0, 180},
		"one token":                 {0, 1, 0, 1, 0},
		"of no length":              {5, 0, 0, 1, 5},
		"its limit is far":          {10, 200, 100_000, 190, 10},
		"its limit is less":         {0, 200, 64, 64, 0},
		"past length, limit beyond": {500, 200, 4096, 50, 500},
	} {
		l := answer(100, c.came, c.output)
		l.most = c.most
		if left, generated := l.remaining(now, 0.02); left != c.left || generated != c.generated {
			t.Errorf("%s: %d left and %d generated, want %d and %d", name, left, generated, c.left, c.generated)
		}
	}
}

func TestTokensThatCameAreToldOneByOneOrGuessedByTime(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	b.tick(0, func(int) pressure.Reading { return works(0, 1) })
	stream := pick(t, b.Pool, Demand{PromptTokens: 4000, MostOutput: 1000})
	whole := pick(t, b.Pool, Demand{PromptTokens: 4000, MostOutput: 1000, Whole: true})
	for range 70 {
		stream.Came()
	}
	const pace = 0.025
	if left, generated := stream.remaining(b.now, pace); generated != 70 || left != 130 {
		t.Errorf("of the stream %d came, %d are left", generated, left)
	}
	// Two prompts of 4,000 tokens take 2 s at the rate that is believed at first.
	for after, want := range map[time.Duration]int{0: 0, 2 * time.Second: 0, 3 * time.Second: 40, 6 * time.Second: 160, time.Hour: 1000} {
		if left, generated := whole.remaining(b.now.Add(after), pace); generated != want || left > 200 || want == 1000 && left != 0 {
			t.Errorf("after %v: %d came, %d are left, want %d", after, generated, left, want)
		}
		if begun := whole.begun(b.now.Add(after)); begun != (after > 2*time.Second) {
			t.Errorf("after %v: begun %v", after, begun)
		}
	}
	if stream.begun(b.now.Add(time.Hour)) {
		t.Error("a stream without a token has begun")
	}
	stream.FirstToken()
	if !stream.begun(b.now) {
		t.Error("a stream with a token has not begun")
	}
}

func TestTheForecastFollowsWhatComesAndGoes(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	b.tick(0, func(int) pressure.Reading { return works(0, 1) })
	u := &b.first().under
	growth := func() float64 { return u.forecast(b.now, 0.02) }
	if growth() != 0 {
		t.Errorf("nothing is there, and grows by %v", growth())
	}
	one := pick(t, b.Pool, Demand{PromptTokens: 1000, MostOutput: 100})
	if got := growth(); got != float64(spanEnd(span(100))) {
		t.Errorf("one grows by %v", got)
	}
	two := pick(t, b.Pool, Demand{PromptTokens: 1000, MostOutput: 100})
	if got := growth(); got != float64(2*spanEnd(span(100))) {
		t.Errorf("two grow by %v", got)
	}
	for range 60 {
		one.Came()
	}
	if got := growth(); got != float64(2*spanEnd(span(100))) {
		t.Errorf("a forecast is good for a while, but was made anew: %v", got)
	}
	b.now = b.now.Add(growthFor)
	// At the end of the first both have grown by 40 (rounded up), or the second alone by 100.
	if got := growth(); got != float64(2*spanEnd(span(40))) {
		t.Errorf("after 60 tokens: %v", got)
	}
	two.Done(0)
	if got := growth(); got != float64(spanEnd(span(40))) {
		t.Errorf("the first alone: %v", got)
	}
	one.Done(100)
	if growth() != 0 || u.partly != 0 || u.begin != 0 || u.spread != 0 {
		t.Errorf("left: %+v", *u)
	}
}

func TestThePlacesOfLeasesAreRightHoweverManyComeAndGo(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a", "http://b", "http://c"}})
	rng := rand.New(rand.NewPCG(5, 5))
	var open []*Lease
	check := func() {
		t.Helper()
		n := 0
		for _, x := range *b.set.Load() {
			using := map[prefix.Key]int{}
			for at, l := range x.under.leases {
				if l == nil || l.at != at || l.backend != x || l.done {
					t.Fatalf("backend %s, place %d: %+v", x.id, at, l)
				}
				for _, part := range l.parts {
					if part.Key != 0 {
						using[part.Key]++
					}
				}
				n++
			}
			if len(using) != len(x.under.using) {
				t.Fatalf("backend %s: %d prefixes in use, %d are counted", x.id, len(using), len(x.under.using))
			}
			for k, uses := range using {
				if x.under.using[k] != uses {
					t.Fatalf("backend %s: %d use %x, %d are counted", x.id, uses, k, x.under.using[k])
				}
			}
			if x.all.requests != len(x.under.leases) {
				t.Fatalf("backend %s: %d requests, %d leases", x.id, x.all.requests, len(x.under.leases))
			}
		}
		if n != len(open) {
			t.Fatalf("%d leases of %d", n, len(open))
		}
	}
	for range 3000 {
		if len(open) == 0 || rng.IntN(100) < 52 {
			d := Demand{PromptTokens: 100 + rng.IntN(1000)}
			if rng.IntN(4) > 0 {
				d = prompted([]string{"one", "two", "three"}[rng.IntN(3)], rng.IntN(5))
			}
			open = append(open, pick(t, b.Pool, d))
		} else {
			i := rng.IntN(len(open))
			open[i].Done(rng.IntN(300))
			open[i].Done(1) // changes nothing
			open = append(open[:i], open[i+1:]...)
		}
		check()
	}
	for _, l := range open {
		l.Done(10)
	}
	open = nil
	check()
	for _, x := range *b.set.Load() {
		if len(x.under.using) != 0 {
			t.Errorf("backend %s: prefixes are in use by nobody: %v", x.id, x.under.using)
		}
		for _, l := range x.under.leases[:cap(x.under.leases)] {
			if l != nil {
				t.Fatalf("backend %s keeps a lease that is over", x.id)
			}
		}
	}
}

func TestASharedPrefixCountsOnceWhileItIsInUseAndAgainAfter(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	b.tick(0, func(int) pressure.Reading { return works(0, 1) })
	d := func(i int) Demand {
		d := prompted("a system prompt", i)
		d.Parts[0].Share = 0.75
		return d
	}
	first := pick(t, b.Pool, d(1))
	if first.part.held != 1000 || first.shared != 0 {
		t.Fatalf("the first holds %d of its 1000 tokens", first.part.held)
	}
	second, third := pick(t, b.Pool, d(2)), pick(t, b.Pool, d(3))
	for _, l := range []*Lease{second, third} {
		if l.part.held != 250 || l.shared != 750 {
			t.Errorf("holds %d beside the first", l.part.held)
		}
	}
	same := pick(t, b.Pool, d(1)) // all of it, up to what the engine computes anew
	if same.part.held > 250 {
		t.Errorf("the same prompt holds %d", same.part.held)
	}
	other := pick(t, b.Pool, prompted("another system prompt", 1))
	if other.part.held != 1000 {
		t.Errorf("another holds %d", other.part.held)
	}
	for _, l := range []*Lease{first, second, third, same} {
		l.Done(1)
	}
	again := pick(t, b.Pool, d(4)) // it is warm, but nobody holds it: it may have to be taken from what is free
	if again.part.held != 1000 || again.part.queued != 250 {
		t.Errorf("after their end it holds %d and computes %d", again.part.held, again.part.queued)
	}
}

func TestWhatOtherReplicasUseOfAPrefixIsAsLikelyAsWhatWeDo(t *testing.T) {
	replicas := 1
	b := newBench(t, Options{Backends: []string{"http://a"}, Replicas: func() int { return replicas }})
	b.tick(0, func(int) pressure.Reading { return works(0, 1) })
	b.inUse = 0.5
	d := func(i int) Demand {
		d := prompted("a system prompt", i)
		d.Parts[0].Share = 0.75
		return d
	}
	pick(t, b.Pool, d(1)).Done(1)
	for n, others := range map[int]float64{1: 0, 2: 0.5, 3: 0.75} {
		replicas, b.inUse = n, 0.5
		l := pick(t, b.Pool, d(2+n))
		cached := 1000 - l.part.queued
		if want := int(others * float64(cached)); cached == 0 || l.shared != want {
			t.Errorf("%d replicas: %d of %d tokens are shared, want %d", n, l.shared, cached, want)
		}
		l.Done(1)
	}
}

func TestWhatOthersHoldIsGuessedByReplicasAndByTheQueue(t *testing.T) {
	replicas := 1
	b := newBench(t, Options{Backends: []string{"http://a"}, Replicas: func() int { return replicas }})
	b.tick(0, func(int) pressure.Reading { return works(0, 1) })
	held := func() float64 { return looked(b.Pool)[0].OthersHeld }
	if held() != 0 {
		t.Errorf("nobody is there, and holds %v", held())
	}
	replicas = 3
	pick(t, b.Pool, Demand{PromptTokens: 2000})
	if got := held(); got != 0 {
		t.Errorf("one request of ours is taken for a sign of theirs: %v", got)
	}
	for range 3 { // that no reading can know of yet
		pick(t, b.Pool, Demand{PromptTokens: 2000})
	}
	for n, want := range map[int]float64{1: 0, 2: 6000, 3: 12_000} {
		replicas = n
		if got := held(); math.Abs(got-want) > 1e-6 {
			t.Errorf("%d replicas: others hold %v, want %v", n, got, want)
		}
	}
	// A reading that knows ours and shows two more that wait: they are others'.
	replicas = 1
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
		b.outputs.learn(-1, 0, 300)
	}
	reading := func(running int) {
		b.tick(time.Second, func(int) pressure.Reading { return works(running, float64(running)) })
	}
	reading(10)
	half := 10 * 16.0 / 2 // a last block each
	if got := looked(b.Pool)[0].Growth; math.Abs(got-(10*b.outputs.all.mean/2+half)) > 1e-6 {
		t.Errorf("ten of others grow by %v", got)
	}
	l := pick(t, b.Pool, Demand{PromptTokens: 100, MostOutput: 100})
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

func TestTheFlowIsARateThatForgets(t *testing.T) {
	var f flow
	now := time.Unix(1_800_000_000, 0)
	if f.perSecond(now) != 0 {
		t.Error("nothing flowed")
	}
	for _, silence := range []time.Duration{0, 11 * time.Second, time.Hour} {
		now = now.Add(silence)
		for i := range 3000 { // five minutes at 1,000 tokens a second
			now = now.Add(100 * time.Millisecond)
			f.add(100, now)
			got := f.perSecond(now)
			switch {
			case i < 10 && got != 0:
				t.Fatalf("%v a second after %d times 100 ms", got, i)
			case i >= 10 && (got < 980 || got > 1000+10_000/float64(i)+20):
				t.Fatalf("%v a second after %d times 100 ms, want 1000", got, i)
			}
		}
	}
	full := f.perSecond(now)
	if got := f.perSecond(now.Add(flowTime)); math.Abs(got-full/math.E) > 1e-6 {
		t.Errorf("after %v without any: %v, want %v", flowTime, got, full/math.E)
	}
	if got := f.perSecond(now.Add(2*flowTime + 1)); got != 0 {
		t.Errorf("long after: %v", got)
	}
	if got := f.perSecond(now.Add(-time.Minute)); got < 980 || got > 1020 {
		t.Errorf("with a clock that went back: %v", got)
	}
}
