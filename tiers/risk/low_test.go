package risk

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestProofEachPriorityKeepsToItsOwnBound: of the drafts for requests of priority low another share is bad. With evidence of its own
// each priority keeps to its bound. Where all audits count for both, a threshold for each bound serves one of them too many bad drafts.
func TestProofEachPriorityKeepsToItsOwnBound(t *testing.T) {
	rule := forever
	rule.MaxDisagreementLow = .15
	for _, share := range []float64{.02, .50} {
		laws := map[string]binormal{"all.x": usual, "all_low.x": {share, usual.shift}}
		for _, apart := range []bool{true, false} {
			broken, runs := map[string]int{}, size(20, 300)
			for seed := range uint64(runs) {
				for class := range wrongByPriority(t, rule, laws, apart, rand.New(rand.NewPCG(proofSeed, seed))) {
					broken[class]++
				}
			}
			fmt.Fprintf(t.Output(), "| low: %.2f bad | evidence apart: %v | above their bound: others %d, low %d of %d runs |\n", share, apart, broken["all.x"], broken["all_low.x"], runs)
			if kept := float64(max(broken["all.x"], broken["all_low.x"])) <= rule.ErrorProbability*float64(runs); kept != apart {
				t.Errorf("low %.2f bad, apart %v: broken %v in %d runs", share, apart, broken, runs)
			}
		}
	}
}

// wrongByPriority returns the classes that were ever served by a threshold whose risk is above their bound.
func wrongByPriority(t *testing.T, rule Rule, laws map[string]binormal, apart bool, rng *rand.Rand) map[string]bool {
	states, wrong := map[string]*State{"all.x": {}, "all_low.x": {}}, map[string]bool{}
	for i := range 20_000 {
		class := []string{"all.x", "all_low.x"}[i%2]
		score, bad := laws[class].draw(rng)
		for key, s := range states {
			r := rule.For(key)
			if d := s.View(r).Decide(Key{}, Sampling{Rate: 1, FullRange: 1}, 0); key == class || !apart {
				s.Open(r, &Audit{Decision: d, Score: score, Ticket: fmt.Sprint(i)}, time.Unix(int64(i), 0))
				s.Close(r, fmt.Sprint(i), bad)
			}
		}
		if op := states[class].View(rule.For(class)).Op; op > 0 {
			accepted, refused := laws[class].tail(states[class].Grid.At(op))
			if refused > rule.For(class).MaxDisagreement*accepted {
				wrong[class] = true
			}
		}
	}
	for class, s := range states {
		if share := laws["all_low.x"].rho; s.Op == 0 && share < usual.rho {
			t.Errorf("%s: nothing is served", class)
		}
	}
	return wrong
}
