package economy

import (
	"math"
	"math/rand/v2"
	"testing"
)

// near reports whether two prices are the same but for rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b), 1e-9) }

func TestWhatIsSalvagedIsReadAndNotWrittenByTheTarget(t *testing.T) {
	s, e := Shape{Prompt: 500, Holdback: 100}, Expectation{Samples: 50, UpperBound: .5, Output: 300}
	without := EstimateCost(caseA, s, e)
	e.Salvaged = .4 // 40 tokens, in every second request
	with := EstimateCost(caseA, s, e)
	if want := .5 * 40 * (caseA.TargetDecode - caseA.TargetPrefill); !near(without.DraftUSD-with.DraftUSD, want) {
		t.Errorf("salvage saved %g, want %g", without.DraftUSD-with.DraftUSD, want)
	}
	if with.BreakEven >= without.BreakEven {
		t.Errorf("break-even is %g with salvage and %g without", with.BreakEven, without.BreakEven)
	}
}

// After a turn by the target its pool has the conversation, and the draft's has not.
func TestWhatAPoolHasCachedOfAPromptCostsNothing(t *testing.T) {
	cold := Shape{Prompt: 4000, Holdback: 48}
	all, e := EstimateCost(caseA, cold, Expectation{Output: 60}), Expectation{Output: 60}
	warm := cold
	warm.Cached = Cached{Draft: 1000, Target: 3900}
	got := EstimateCost(caseA, warm, e)
	if !near(all.TargetUSD-got.TargetUSD, 3900*caseA.TargetPrefill) || !near(all.DraftUSD-got.DraftUSD, 1000*caseA.DraftPrefill) || got.Prompt != 4000 {
		t.Errorf("got %+v, cold %+v", got, all)
	}
	if all.SavingUSD() <= 0 || got.SavingUSD() >= 0 {
		t.Errorf("a draft saves %g $ with all cold, %g with the target warm", all.SavingUSD(), got.SavingUSD())
	}
	warm.Cached.Target = 5000
	if got := EstimateCost(caseA, warm, e); !near(got.TargetUSD, 60*caseA.TargetDecode) {
		t.Errorf("more than the prompt is cached: %+v", got)
	}
}

func TestAnAnswerIsNoLongerThanItMayBe(t *testing.T) {
	got := EstimateCost(caseA, Shape{Prompt: 10, MaxOutput: 16, Holdback: 48}, Expectation{Output: 300})
	if got.Output != 16 || got.Holdback != 16 {
		t.Errorf("got output %g, held %g; want 16 and 16", got.Output, got.Holdback)
	}
	if got := EstimateCost(caseA, Shape{Prompt: 10, Holdback: 48}, Expectation{}); got.Output != outputDefault || got.Holdback != 48 || got.Acceptance != 1 {
		t.Errorf("with nothing known: got %+v", got)
	}
}

func TestAtTheBreakEvenNothingIsSavedOrLost(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 1))
	met := 0
	for range 2000 {
		p := Prices{random.Float64() + .01, random.Float64() + .01, random.Float64()*3 + .01, random.Float64()*10 + .01}
		s := Shape{Prompt: random.IntN(5000), Holdback: random.IntN(200), Whole: random.IntN(2) == 0, Scored: random.IntN(2) == 0}
		e := Expectation{Samples: 1, UpperBound: random.Float64(), Output: 1 + 1000*random.Float64(), Salvaged: random.Float64()}
		sums := EstimateCost(p, s, e)
		if sums.BreakEven < 0 || sums.BreakEven > Never || math.IsNaN(sums.BreakEven) {
			t.Fatalf("break-even %g of %+v %+v %+v", sums.BreakEven, p, s, e)
		}
		if worthwhile := sums.SavingUSD() >= 0; math.Abs(sums.SavingUSD()) > 1e-6 && worthwhile != (e.UpperBound >= sums.BreakEven) {
			t.Fatalf("saving %g at acceptance %g, break-even %g", sums.SavingUSD(), e.UpperBound, sums.BreakEven)
		}
		if sums.BreakEven > 0 && sums.BreakEven <= 1 {
			met++
			e.UpperBound = sums.BreakEven
			if left := EstimateCost(p, s, e).SavingUSD(); math.Abs(left) > 1e-6*sums.TargetUSD {
				t.Fatalf("at the break-even %g of %g is saved", left, sums.TargetUSD)
			}
		}
	}
	if met < 100 {
		t.Fatalf("only %d of the cases have a break-even", met)
	}
}

func TestDraftsAreMadeWhereTheyPay(t *testing.T) {
	on := Policy{Enabled: true, ExploreRate: .02}
	chat := Shape{Prompt: 500, Holdback: 32}
	long := Shape{Prompt: 4000, Holdback: 32}
	sure := func(a float64) Expectation {
		return Expectation{Samples: 200, Acceptance: a, UpperBound: UpperBound(200*a, 200), Output: 300}
	}
	short := sure(1)
	short.Output = 150
	for _, c := range []struct {
		name     string
		pol      Policy
		p        Prices
		s        Shape
		e        Expectation
		random   float64
		reason   string
		explored bool
	}{
		{name: "nothing is known yet", pol: on, p: caseB, s: chat, random: .5},
		{name: "they pay", pol: on, p: caseB, s: chat, e: sure(.6), random: .5},
		{name: "they do not pay", pol: on, p: caseB, s: chat, e: sure(.3), random: .5, reason: ReasonNoSaving},
		{name: "they might pay, by the bound", pol: on, p: caseB, s: chat, e: sure(.44), random: .5},
		{name: "they never pay", pol: on, p: caseB, s: long, e: short, random: .5, reason: ReasonNoSaving},
		{name: "they never pay, and nothing is known of drafts", pol: on, p: caseB, s: long, e: Expectation{Output: 150}, random: .5, reason: ReasonNoSaving},
		{name: "to learn", pol: on, p: caseB, s: chat, e: sure(.3), random: .019, explored: true},
		{name: "the dice are just beside", pol: on, p: caseB, s: chat, e: sure(.3), random: .02, reason: ReasonNoSaving},
		{name: "the dice do not matter where they pay", pol: on, p: caseB, s: chat, e: sure(.6)},
		{name: "no prices", pol: on, s: chat, e: sure(0), random: .5},
		{name: "off", pol: Policy{}, p: caseB, s: long, e: short, random: .5},
		{name: "no exploration", pol: Policy{Enabled: true}, p: caseB, s: chat, e: sure(.3), reason: ReasonNoSaving},
	} {
		sums, reason := Decide(c.pol, c.p, c.s, c.e, c.random)
		if reason != c.reason || sums.Explored != c.explored {
			t.Errorf("%s: got %q, explored %t, want %q, %t (%+v)", c.name, reason, sums.Explored, c.reason, c.explored, sums)
		}
	}
}

func TestTheUpperBoundHoldsInNineOfTenRuns(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 9))
	const runs = 4000
	for _, c := range []struct{ a, n float64 }{{.1, 20}, {.3, 50}, {.5, 200}, {.8, 30}} {
		holdback := 0
		for range runs {
			served := 0.0
			for range int(c.n) {
				if random.Float64() < c.a {
					served++
				}
			}
			if UpperBound(served, c.n) >= c.a {
				holdback++
			}
		}
		if share := float64(holdback) / runs; share < .86 || share > .96 { // discrete counts: not .9 to the digit
			t.Errorf("A=%g, n=%g: the bound held in %.3f of the runs, want about .9", c.a, c.n, share)
		}
	}
	for n := .01; n < 300; n *= 1.01 {
		if got := UpperBound(n, n); got != 1 {
			t.Fatalf("all of %g were served: got %g, want 1", n, got)
		}
	}
	if UpperBound(0, 0) != 1 || UpperBound(5, 5) != 1 || UpperBound(0, 200) > .01 {
		t.Errorf("got %g, %g, %g", UpperBound(0, 0), UpperBound(5, 5), UpperBound(0, 200))
	}
}
