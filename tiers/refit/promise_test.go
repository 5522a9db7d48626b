package refit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/risk"
)

// draftOf is a draft of a population.
type draftOf struct {
	features accept.Features
	plain    float64 // its score by the score in force
	bad      bool
}

// population is many drafts. Runs draw from it with replacement, so that the risk of every threshold of every score is
// known exactly.
type population []draftOf

// populationOf makes n drafts: the log odds of a good one are bias plus a weighted sum of the features, plus hidden times
// the plain score, which is no feature.
func populationOf(n int, bias, hidden float64, weights accept.Features, seed uint64) population {
	rng := rand.New(rand.NewPCG(seed, 1))
	all := make(population, n)
	for i := range all {
		d := &all[i]
		d.plain = rng.NormFloat64()
		odds := bias + hidden*d.plain
		for k := range d.features {
			d.features[k] = rng.NormFloat64()
			odds += weights[k] * d.features[k]
		}
		d.bad = rng.Float64() > 1/(1+math.Exp(-odds))
	}
	return all
}

// risk is the share of bad ones of the drafts that a threshold accepts.
func (p population) risk(m *accept.ScoreMap, lambda float64) float64 {
	n, bad := 0, 0
	for i := range p {
		if float64(m.Score(p[i].features)) < lambda {
			continue
		}
		if n++; p[i].bad {
			bad++
		}
	}
	return float64(bad) / float64(max(n, 1))
}

var chat = risk.Key{Route: "org/chat", TrafficClass: "all_t0.0a1b2c3d"}

// rival is what a refit must not do.
type rival string

const (
	fair    rival = "fair"
	fitted  rival = "the audits of the fit are evidence, too"
	floored rival = "audits with a floor are evidence, too"
)

// run is one route with refits, as a test plays it: audits come, and every hundred there is a round.
type run struct {
	law    population
	rule   risk.Rule
	rng    *rand.Rand
	gate   bool // only fits that are clearly better become candidates
	rival  rival
	now    time.Time
	log    []risk.LogEntry
	state  Progress
	fits   int
	states []risk.KeyState
}

func newRun(law population, r risk.Rule, seed uint64) *run {
	return &run{law: law, rule: r, rng: rand.New(rand.NewPCG(seed, 2)), now: time.Unix(1_000_000, 0)}
}

// audit adds audits. Those with a floor are of the better half by the score in force.
func (r *run) audit(n int) {
	for range n {
		r.now = r.now.Add(time.Second)
		floor := -float64(risk.Unreachable)
		if (r.state.Candidate.Version == 0 || r.rival == floored) && r.rng.Float64() >= .2 {
			floor = 0
		}
		d := &r.law[r.rng.IntN(len(r.law))]
		if d.plain < floor {
			continue
		}
		if r.rival == floored {
			floor = -risk.Unreachable // it is taken for what it is not
		}
		label := risk.Good
		if d.bad {
			label = risk.Bad
		}
		r.log = append(r.log, risk.LogEntry{
			When: r.now, Label: label,
			Audit: risk.Audit{Decision: risk.Decision{Key: chat, Floor: floor}, Ticket: fmt.Sprint(len(r.log)), Score: d.plain, Features: d.features[:]},
		})
	}
}

func (r *run) input() Input {
	return Input{Progress: r.state, Rule: r.rule, Log: r.log, States: r.states}
}

// round makes one decision and carries it out, and returns it.
func (r *run) round(t testing.TB) Step {
	t.Helper()
	s := Next(r.input())
	r.state = s.Progress
	if s.Do != Fit {
		return s
	}
	f, err := FitScore(s.Samples)
	if err != nil {
		t.Fatal(err)
	}
	if r.gate && !IsBetter(&f) {
		r.state = s.withFit()
		return s
	}
	r.fits++
	if r.state = s.withCandidate(&f); r.rival == fitted {
		r.state.Fitted = time.Time{}
	}
	return s
}

// play plays until a candidate is promoted, for so many audits at most, and reports the true risk of what it serves.
func (r *run) play(t testing.TB, audits int) (risk float64, promoted bool) {
	t.Helper()
	for len(r.log) < audits {
		r.audit(100)
		if s := r.round(t); s.Do == Promote {
			o := s.Openings[0]
			return r.law.risk(&s.Progress.Candidate, o.Import.Grid.At(o.Index)), true
		}
	}
	return 0, false
}

func TestProofRefitsBreakThePromiseNoMoreOftenThanItSays(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	const runs = 40
	rule := risk.Rule{MaxDisagreement: .1, ErrorProbability: .2, LeaseAudits: 800, DriftRunLength: 1000}
	law := populationOf(100_000, 3.7, 2.5, accept.Features{}, 7) // every threshold of every fit has a risk above ε
	if base := law.risk(&accept.ScoreMap{}, -1); base < .105 || base > .125 {
		t.Fatalf("%.3f of the drafts are bad, want a little more than ε", base)
	}
	broken := map[rival]int{}
	for _, how := range []rival{fair, floored} {
		for i := range uint64(runs) {
			r := newRun(law, rule, i)
			r.rival = how
			if truth, promoted := r.play(t, 3000); promoted && truth > rule.MaxDisagreement {
				broken[how]++
			}
		}
	}
	t.Logf("promises broken in %d runs: %v", runs, broken)
	// All candidates of a run together err with probability 0.83 δ at most: 6.6 of 40 runs, with a deviation of 2.4.
	if broken[fair] > 14 {
		t.Errorf("%d promises of %d were broken, δ is %v", broken[fair], runs, rule.ErrorProbability)
	}
	if broken[floored] < runs/2 {
		t.Errorf("audits with a floor as evidence broke %d of %d promises: the test would not see a mistake", broken[floored], runs)
	}
}

func TestProofOnlyAuditsAfterTheFitTellTheRiskOfACandidateWithoutBias(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	const runs = 200
	rule := risk.Rule{MaxDisagreement: .1, ErrorProbability: .2, LeaseAudits: 1_000_000, DriftRunLength: 1000}
	law := populationOf(100_000, 1.5, 0, accept.Features{}, 8) // the features say nothing
	for _, how := range []rival{fair, fitted} {
		var sum, squares float64
		for i := range uint64(runs) {
			r := newRun(law, rule, i)
			r.rival = how
			for r.state.Candidate.Version == 0 {
				r.audit(100)
				r.round(t)
			}
			r.audit(100)
			h := historyOf(&Input{Log: r.log})
			in := r.input()
			c := h.classes(&in)[0]
			o, _ := c.judge(&in, &risk.Sketch{})
			n, k := o.Import.N[0], o.Import.K[0] // the strictest threshold
			off := float64(k)/float64(n) - law.risk(&r.state.Candidate, o.Import.Grid.At(1))
			sum, squares = sum+off, squares+off*off
		}
		mean := sum / runs
		deviation := math.Sqrt((squares/runs - mean*mean) / runs)
		t.Logf("%s: the strictest threshold looks %.4f worse than it is, ± %.4f", how, mean, deviation)
		if biased := mean < -4*deviation; biased != (how == fitted) || how == fair && mean > 4*deviation {
			t.Errorf("%s: off by %.4f ± %.4f", how, mean, deviation)
		}
	}
}
