package risk

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// labelled is a population whose drafts get a label that errs, such as that of a judge: missed is the share of the bad drafts
// that it calls good, and blamed that of the good ones that it calls bad, whatever their score.
type labelled struct {
	population
	missed, blamed float64
}

func (l labelled) draw(rng *rand.Rand) (score float64, bad bool) {
	score, bad = l.population.draw(rng)
	flips := l.blamed
	if bad {
		flips = l.missed
	}
	return score, bad != (rng.Float64() < flips)
}

func (l labelled) tail(lambda float64) (accepted, bad float64) {
	accepted, bad = l.population.tail(lambda)
	return accepted, bad*(1-l.missed) + (accepted-bad)*l.blamed
}

// truth is the share of what is served that is really bad, of which a share is bad by the label.
func (l labelled) truth(byLabel float64) float64 {
	return (byLabel - l.blamed) / (1 - l.missed - l.blamed)
}

// What is promised of a label that errs is promised of its word: of the served drafts it calls ε bad at most. Really bad are
// then (ε − blamed) ÷ (1 − missed − blamed) at most. The first two rates are those that loadtest/quality measures of the
// simulator's judge. One that blames more than ε certifies nothing.
func TestProofALabelThatErrsIsPromisedByItsWord(t *testing.T) {
	rule := Rule{MaxDisagreement: .10, ErrorProbability: .05, LeaseAudits: 4000, DriftRunLength: driftRun}
	for i, tc := range []struct {
		name           string
		missed, blamed float64
	}{{"regenerate", .38, .07}, {"judge", .38, .34}, {"a better judge", .10, .02}, {"a judge that misses half", .50, .05}} {
		for j, law := range laws {
			p := labelled{law.law, tc.missed, tc.blamed}
			name := law.name + ", " + tc.name
			f := sum(traffic{rule: rule, requests: 200_000, first: p}.replays(proofSeed+uint64(10*i+j), size(2, 300)))
			f.kept(t, name, rule)
			bound := p.truth(rule.MaxDisagreement)
			if bound < 0 {
				if f.allAccepted > rule.ErrorProbability {
					t.Errorf("%s: %.4f were served, though the label calls more than ε bad of any drafts", name, f.allAccepted)
				}
				continue
			}
			fmt.Fprintf(t.Output(), "| %s | %.2f | %.2f | %.4f | %.4f | %.4f |\n", name, tc.missed, tc.blamed, f.allRisk, p.truth(f.allRisk), bound)
			if f.allAccepted > 0 && p.truth(f.allRisk) > bound {
				t.Errorf("%s: really bad are %.4f, and %.4f at most could be", name, p.truth(f.allRisk), bound)
			}
		}
	}
}
