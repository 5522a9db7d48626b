package risk

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// chooser changes ε after each audit. It knows the truth, and looks for an ε at which a certified threshold is wrong.
type chooser struct {
	law   population
	rng   *rand.Rand
	state State
	rule  Rule
	risks [gridSize]float64
}

// newChooser has a state with a grid.
func newChooser(law population, seed, run uint64) *chooser {
	c := &chooser{law: law, rng: rand.New(rand.NewPCG(seed, run)), rule: forever}
	for i := range GridScores {
		score, _ := law.draw(c.rng)
		c.state.Open(c.rule, &Audit{Decision: c.state.View(c.rule).Decide(Key{}, Sampling{Rate: 1}, 0), Score: score, Ticket: strconv.Itoa(i)}, time.Unix(1, 0))
	}
	for j := range gridSize {
		accepted, bad := law.tail(c.state.Grid.At(j + 1))
		c.risks[j] = bad / accepted
	}
	return c
}

// audit adds the outcome of one full-range audit.
func (c *chooser) audit(i int) {
	score, bad := c.law.draw(c.rng)
	ticket := "a" + strconv.Itoa(i)
	if c.state.Open(c.rule, &Audit{Decision: c.state.View(c.rule).Decide(Key{}, Sampling{Rate: 1, FullRange: 1}, 0), Score: score, Ticket: ticket}, time.Unix(2, 0)) == Opened {
		c.state.Close(c.rule, ticket, bad)
	}
}

// fooled reports whether a test at 5 %, made afresh at each look, finds a threshold good at an ε that it does not keep to.
func (c *chooser) fooled() bool {
	const z, few = 1.645, 30
	for j, eps := range c.risks {
		for i := range c.state.Epochs {
			n, k := float64(c.state.Epochs[i].N[j]), float64(c.state.Epochs[i].K[j])
			if n >= few && k+z*math.Sqrt(n*eps*(1-eps)) < eps*n {
				return true
			}
		}
	}
	return false
}

// servesWrong reports whether the threshold that [State] puts in force at an ε does not keep to it.
func (c *chooser) servesWrong(eps float64) bool {
	c.rule.MaxDisagreement = eps
	c.state.Close(c.rule, "nobody's", false) // makes the rule take effect
	op := c.state.View(c.rule).Op
	return op > 0 && c.risks[op-1] >= eps
}

func TestProofEpsMayBeChosenByTheEvidenceAtEachLook(t *testing.T) {
	runs, looks := size(60, 1000), 1500
	for i, law := range laws {
		wrong, rival := 0, 0
		for run := range runs {
			c := newChooser(law.law, proofSeed+uint64(i), uint64(run))
			lost, fooled := false, false
			for at := range looks {
				c.audit(at)
				if at%10 != 0 {
					continue
				}
				for _, eps := range c.risks { // at a larger ε a threshold is not wrong, at a smaller one it is certified later
					lost = lost || c.servesWrong(eps)
				}
				fooled = fooled || c.fooled()
			}
			wrong += int(flag(lost))
			rival += int(flag(fooled))
		}
		fmt.Fprintf(t.Output(), "| ε changed at each look, %s | %d | %.4f (%.4f) | a test at 5 %% at each look: %.4f |\n", law.name, runs,
			float64(wrong)/float64(runs), upper(float64(wrong)/float64(runs), runs), float64(rival)/float64(runs))
		if float64(wrong) > forever.ErrorProbability*float64(runs) {
			t.Errorf("%s: wrong in %d of %d runs", law.name, wrong, runs)
		}
		if float64(rival) <= forever.ErrorProbability*float64(runs) {
			t.Errorf("%s: the rival is wrong in %d of %d runs: the proof sees nothing", law.name, rival, runs)
		}
	}
}
