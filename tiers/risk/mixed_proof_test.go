package risk

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// mixing is a class of three applications. Audits come from a mix of its own; what is served comes from mixes that move, each
// chosen without regard to anything.
type mixing struct {
	risks   [3]float64
	audited [3]float64 // weight of each application in the audits
	still   bool       // the mix is of equal parts, and stays so
	count   counting
}

// counting is how audits become evidence.
type counting string

const (
	byApplication counting = ""
	pooled        counting = "one count for all applications"                         // rival
	weighted      counting = "one count, of audits by one in their chance"            // the rival's cure where the mix stays
	aimed         counting = "audits of the surer drafts are frequent, and all count" // rival
)

// draw draws an audit. An aimed one is of the surer half of the drafts nine times as often.
func (m *mixing) draw(rng *rand.Rand) (a int, bad bool) {
	a = pick(rng, m.audited[:])
	risk := m.risks[a]
	if m.count == aimed {
		risk *= []float64{.2, 1.8}[pick(rng, []float64{9, 1})]
	}
	return a, rng.Float64() < risk
}

const mixedLevel = 0.05

// broke reports whether a run of audits ever served a mix whose risk is above eps.
func (m mixing) broke(rng *rand.Rand, audits int) bool {
	r := Rule{MaxDisagreement: .10, MaxDisagreementApplication: .5, ErrorProbability: 2 * mixedLevel}
	s := strataOf([]string{"a", "b"}) // and the rest
	need := math.Log(1 / mixedLevel)  // of one index
	all := Counts{}
	for i := range audits {
		a, bad := m.draw(rng)
		to := []*Counts{&s.Counts[a], &all}
		if m.count == weighted && rng.Float64() >= slices.Min(m.audited[:])/m.audited[a] { // of equal chance are those that stay
			to = to[:1]
		}
		for _, c := range to {
			b := OpenAudit{First: 1, Hi: 1, Weight: 1}
			c.open(&b)
			c.close(&b, bad)
		}
		if i%10 != 9 {
			continue
		}
		mix := Mix{rng.ExpFloat64(), rng.ExpFloat64(), rng.ExpFloat64()}
		if i%40 == 9 {
			mix[rng.IntN(3)] *= 10 // one application alone, nearly
		}
		if m.still {
			mix = Mix{1, 1, 1}
		}
		within := []bool{true, true, true}
		if m.count == pooled || m.count == weighted {
			if LogE(all.N[0], all.K[0], r.MaxDisagreement) < need {
				continue
			}
		} else if reach := s.reach(mix, 0, r, need); reach.Index == 0 {
			continue
		} else {
			within = reach.Within
		}
		served, wrong := 0.0, 0.0
		for a, w := range mix {
			if within[a] {
				served += w
				wrong += w * m.risks[a]
			}
		}
		if wrong > r.MaxDisagreement*served*(1+1e-9) {
			return true
		}
	}
	return false
}

func pick(rng *rand.Rand, weights []float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	x := rng.Float64() * sum
	for a, w := range weights[:len(weights)-1] {
		if x -= w; x < 0 {
			return a
		}
	}
	return len(weights) - 1
}

// brokeIn is the share of runs that ever served a mix whose risk is above eps.
func (m mixing) brokeIn(runs, audits int) float64 {
	n := 0
	for i := range runs {
		if m.broke(rand.New(rand.NewPCG(proofSeed, uint64(i))), audits) {
			n++
		}
	}
	return float64(n) / float64(runs)
}

// A mix that moves breaks nothing: certificates hold for each mix, and a certificate of the mix of yesterday does not.
func TestProofAMixThatMovesBreaksNothing(t *testing.T) {
	runs := size(40, 600)
	for _, c := range []struct {
		name string
		mixing
	}{
		{"all at the bound", mixing{risks: [3]float64{.1001, .1001, .1001}, audited: [3]float64{1, 1, 1}}},
		{"one far above, two below", mixing{risks: [3]float64{.02, .09, .25}, audited: [3]float64{2, 1, .5}}},
		{"one hardly audited", mixing{risks: [3]float64{.05, .11, .11}, audited: [3]float64{1, .1, .1}}},
	} {
		got := c.brokeIn(runs, 1500)
		c.count = pooled
		rival := c.brokeIn(runs, 1500)
		c.count = aimed
		biased := c.brokeIn(runs, 1500)
		t.Logf("%s: broken in %.3f of %d runs; rivals: %s %.3f, %s %.3f", c.name, got, runs, pooled, rival, aimed, biased)
		if spread := 3 * math.Sqrt(mixedLevel/float64(runs)); got > mixedLevel+spread {
			t.Errorf("%s: %.3f of the runs served a mix above the bound, want at most %.2f", c.name, got, mixedLevel)
		}
		if c.risks[0] < .1 && rival < .5 {
			t.Errorf("%s: the rival is broken in %.3f of the runs only: these mixes show nothing", c.name, rival)
		}
		if biased < .5 {
			t.Errorf("%s: aimed audits that count break it in %.3f of the runs only: they show nothing", c.name, biased)
		}
	}
}

// Of applications that are audited more often, audits count for less: one count of all is wrong even for a mix that stays.
func TestProofAuditsOfAnotherChanceDoNotCountAlike(t *testing.T) {
	runs := size(40, 600)
	m := mixing{risks: [3]float64{.02, .02, .30}, audited: [3]float64{4, 4, 1}, still: true}
	for _, c := range []struct {
		count counting
		kept  bool
	}{{byApplication, true}, {weighted, true}, {pooled, false}} {
		m.count = c.count
		got := m.brokeIn(runs, 1500)
		t.Logf("%q: broken in %.3f of %d runs", c.count, got, runs)
		if spread := 3 * math.Sqrt(mixedLevel/float64(runs)); c.kept && got > mixedLevel+spread || !c.kept && got < .5 {
			t.Errorf("%q: broken in %.3f of the runs", c.count, got)
		}
	}
}
