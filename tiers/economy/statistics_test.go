package economy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

var chat = TrafficClass{Route: "chat", Mode: "confidence", Prompt: UpTo1k}

func TestPromptsAreClassedByLength(t *testing.T) {
	for tokens, want := range map[int]string{0: "to_256", 256: "to_256", 257: "to_1k", 1024: "to_1k", 1025: "to_4k", 4096: "to_4k", 4097: "above_4k", 1 << 30: "above_4k"} {
		if got := LengthOf(tokens).String(); got != want {
			t.Errorf("%d tokens: got %s, want %s", tokens, got, want)
		}
	}
}

func TestOfABucketThatIsNewTheBestIsExpected(t *testing.T) {
	var b Statistics
	b.Learn(TrafficClass{Route: "other"}, Outcome{Drafted: true, Output: 40})
	if got, want := b.Expect(chat), (Expectation{UpperBound: 1, Output: outputDefault}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestWhatHappenedIsExpected(t *testing.T) {
	var b Statistics
	for range 300 {
		b.Learn(chat, Outcome{Drafted: true, Served: true, Prompt: 400, Output: 300})
		b.Learn(chat, Outcome{Drafted: true, Prompt: 600, Output: 200, Holdback: 40, Salvaged: 10})
	}
	got := b.Expect(chat)
	for name, v := range map[string][2]float64{
		"samples": {got.Samples, 190}, "acceptance": {got.Acceptance, .5}, "prompt": {got.Prompt, 500},
		"output": {got.Output, 250}, "held": {got.Holdback, 40}, "salvaged": {got.Salvaged, .25},
	} {
		if math.Abs(v[0]-v[1]) > .006*v[1]+.001 && name != "samples" || name == "samples" && (v[0] < v[1] || v[0] > memory) {
			t.Errorf("%s: got %g, want about %g", name, v[0], v[1])
		}
	}
	if got.UpperBound <= got.Acceptance || got.UpperBound > .56 {
		t.Errorf("upper bound %g of %g", got.UpperBound, got.Acceptance)
	}
}

func TestAnAnswerIsAsLongAsTheDefaultUntilSomeAreKnown(t *testing.T) {
	var b Statistics
	b.Learn(chat, Outcome{Drafted: true, Served: true, Output: 100})
	b.Learn(chat, Outcome{Output: 500})
	if got, want := b.Expect(chat).Output, outputDefault/2+300*.5; math.Abs(got-want) > 1 {
		t.Errorf("after two answers: got %g tokens, want about %g, half of it the default", got, want)
	}
}

func TestOldDraftsAreForgotten(t *testing.T) {
	var b Statistics
	for range 1000 {
		b.Learn(chat, Outcome{Drafted: true, Holdback: 30, Output: 100})
	}
	for range 138 {
		b.Learn(chat, Outcome{Drafted: true, Served: true, Output: 100})
	}
	if got := b.Expect(chat).Acceptance; math.Abs(got-.5) > .01 {
		t.Errorf("after a half-life: got %g, want .5", got)
	}
	before := b.Expect(chat)
	for range 1386 {
		b.Learn(chat, Outcome{Output: 100})
	}
	after := b.Expect(chat)
	if math.Abs(after.Samples/before.Samples-.5) > .01 || math.Abs(after.Acceptance-before.Acceptance) > 1e-9 || after.UpperBound <= before.UpperBound {
		t.Errorf("after 1386 requests without a draft: got %+v, before %+v", after, before)
	}
}

// world answers requests of one kind, 500/300 in price case B, whose break-even is .46.
type world struct {
	book   Statistics
	random *rand.Rand
	pol    Policy
	spent  float64
	plain  float64 // what the target alone would have cost
}

// ask makes one request whose draft would be served with probability a, and reports
// whether it was drafted because that is expected to pay.
func (w *world) ask(a float64) (drafted bool) {
	s := Shape{Prompt: 500, Holdback: 32}
	sums, reason := Decide(w.pol, caseB, s, w.book.Expect(chat), w.random.Float64())
	t := terms{draftPrompt: 500, targetPrompt: 500, output: 300, holdback: 32}
	w.plain += target(caseB, t)
	if reason != "" {
		w.spent += target(caseB, t)
		w.book.Learn(chat, Outcome{Prompt: 500, Output: 300})
		return false
	}
	served := w.random.Float64() < a
	if served {
		t.acceptance = 1
	}
	w.spent += draft(caseB, t, false)
	w.book.Learn(chat, Outcome{Drafted: true, Served: served, Prompt: 500, Output: 300, Holdback: 32})
	return !sums.Explored
}

func TestWhereDraftsDoNotPayTheGuardCostsNextToNothing(t *testing.T) {
	for seed := range uint64(20) {
		for _, a := range []float64{0, .1, .2, .3} {
			w := world{random: rand.New(rand.NewPCG(seed, 1)), pol: Policy{Enabled: true, ExploreRate: .02}}
			for range 20_000 {
				w.ask(a)
			}
			if more := w.spent/w.plain - 1; more > .015 {
				t.Errorf("seed %d, A=%g: %.2f %% more than the target alone", seed, a, 100*more)
			}
		}
	}
}

func TestAShutBucketOpensAgainWhenItsDraftsBecomeGood(t *testing.T) {
	for _, c := range []struct {
		explore float64
		most    int // requests until it is open for good
	}{{.02, 4000}, {0, 12_000}} {
		for seed := range uint64(20) {
			w := world{random: rand.New(rand.NewPCG(seed, 3)), pol: Policy{Enabled: true, ExploreRate: c.explore}}
			for range 3000 {
				w.ask(.05)
			}
			took, row := 0, 0
			for ; row < 20 && took < c.most; took++ { // twenty in a row: it is not a single trial
				if row++; !w.ask(.75) {
					row = 0
				}
			}
			if row < 20 {
				t.Errorf("exploring %g, seed %d: still shut after %d requests: %+v", c.explore, seed, took, w.book.Expect(chat))
			}
		}
	}
}

func TestTheBookIsBounded(t *testing.T) {
	var b Statistics
	for i := range maxClasses + 10 {
		b.Learn(TrafficClass{Route: fmt.Sprint(i)}, Outcome{Output: 1})
	}
	n := 0
	b.Each(func(TrafficClass, Expectation) { n++ })
	if n != maxClasses {
		t.Errorf("%d buckets, want %d", n, maxClasses)
	}
}

func TestTheBookIsLearnedFromManyAtOnce(t *testing.T) {
	var b Statistics
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 500 {
				of := TrafficClass{Route: "r", Prompt: Length(n % int(lengths)), Whole: i%2 == 0}
				b.Learn(of, Outcome{Drafted: n%3 > 0, Served: n%3 == 1, Output: 100, Holdback: 20})
				if e := b.Expect(of); e.Acceptance > e.UpperBound || e.UpperBound > 1 {
					t.Errorf("got %+v", e)
				}
				b.Each(func(TrafficClass, Expectation) {})
			}
		})
	}
	all.Wait()
	n := 0
	b.Each(func(_ TrafficClass, e Expectation) {
		n++
		if !near(e.Output, 100) {
			t.Errorf("got %+v", e)
		}
	})
	if n != 8 {
		t.Errorf("%d buckets, want 8", n)
	}
}
