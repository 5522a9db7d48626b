package risk

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

// blinded is a binormal law of which a share of the good-looking drafts is bad as well: errors that no score shows.
type blinded struct {
	binormal
	share float64
}

func (b blinded) draw(rng *rand.Rand) (float64, bool) {
	score, bad := b.binormal.draw(rng)
	return score, bad || rng.Float64() < b.share
}

func (b blinded) tail(lambda float64) (accepted, bad float64) {
	accepted, bad = b.binormal.tail(lambda)
	return accepted, bad + b.share*(accepted-bad)
}

// frontierRule is what the frontiers of the tests are made for.
var frontierRule = Rule{MaxDisagreement: .05, ErrorProbability: .05, LeaseAudits: 2000, DriftRunLength: 1e300}

// audited is traffic of which every draft of interest is audited: a fifth in full range, the others down to a floor that
// falls with time as that of a route does. A share of the bad outcomes is lost.
type audited struct {
	law  population
	rng  *rand.Rand
	lose float64
	grid Grid
	all  []LogEntry
}

func newAudited(law population, lose float64, seed, run uint64) *audited {
	a := &audited{law: law, rng: rand.New(rand.NewPCG(seed, run)), lose: lose}
	scores := make([]float64, GridScores)
	for i := range scores {
		scores[i], _ = law.draw(a.rng)
	}
	a.grid = GridOf(scores)
	return a
}

// audit adds samples.
func (a *audited) audit(samples int) {
	for to := len(a.all) + samples; len(a.all) < to; {
		floor := float64(-Unreachable)
		if a.rng.Float64() >= .2 {
			floor = a.grid.At(min(lookAhead+len(a.all)/150, len(a.grid)))
		}
		score, bad := a.law.draw(a.rng)
		label := LabelOf(bad)
		if bad && a.rng.Float64() < a.lose {
			label = Lost
		}
		if score >= floor {
			a.all = append(a.all, past(score, floor, label))
		}
	}
}

func (a *audited) frontier() Frontier {
	return FrontierOf(&KeyState{State: State{Grid: a.grid}, Rule: frontierRule}, a.all, 0, Economics{})
}

// truth is the loosest index with a risk of ε or less, and the share of drafts that it accepts.
func (a *audited) truth(eps float64) (index int, share float64) {
	for j := 1; j <= len(a.grid); j++ {
		if accepted, bad := a.law.tail(a.grid.At(j)); bad <= eps*accepted {
			index, share = j, accepted
		}
	}
	return index, share
}

// covered reports whether all that a frontier says is true.
func (a *audited) covered(f *Frontier) bool {
	for _, p := range f.Points {
		index, share := a.truth(p.MaxDisagreement)
		if p.Low > index || index > p.High || share < p.Share.Low || share > p.Share.High {
			return false
		}
		accepted, bad := a.law.tail(a.grid.At(max(p.Estimate, 1)))
		if risk := bad / accepted; risk < p.Risk.Low || risk > p.Risk.High {
			return false
		}
	}
	return true
}

// wilson is what a rival shows: 95 % intervals by Wilson for each threshold alone, of the audits with an outcome.
func wilson(n, k int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.96
	m, p := float64(n), share(k, n)
	mid, half := (p+z*z/(2*m))/(1+z*z/m), z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))/(1+z*z/m)
	return mid - half, mid + half
}

// rivalOf replaces the intervals of a frontier by Wilson's, and what follows from them.
func (a *audited) rivalOf(f *Frontier) Frontier {
	rival := Frontier{Known: true, Thresholds: append([]ThresholdEvidence(nil), f.Thresholds...)}
	for j := range rival.Thresholds {
		t := &rival.Thresholds[j]
		t.Risk.Low, t.Risk.High = wilson(t.Audits-t.Lost, t.Bad)
		above := 0
		for _, s := range a.all {
			if s.Floor <= -Unreachable && s.Score >= t.Threshold {
				above++
			}
		}
		t.Share.Low, t.Share.High = wilson(f.FullRange, above)
	}
	for _, p := range f.Points {
		rival.Points = append(rival.Points, rival.point(p.MaxDisagreement, frontierRule))
	}
	return rival
}

var frontierLaws = []struct {
	name string
	law  population
	lose float64
}{
	{"rho .20, AUROC .85", usual, 0},
	{"rho .10, AUROC .75", binormalOf(.10, .75), 0},
	{"rho .30, AUROC .95", binormalOf(.30, .95), 0},
	{"rho .20, AUROC .85, a third of the bad outcomes lost", usual, .3},
	{"rho .20, AUROC .85, and 4 % that no score shows", blinded{usual, .04}, 0},
	{"no score shows anything", blinded{binormalOf(0, .5), .06}, 0},
}

// looked is what came of many looks at a frontier in one run.
type looked struct {
	missed, rivalMissed bool // an interval was wrong for some ε at some look: ours, Wilson's
	broken, rivalBroken bool // for some ε a threshold was certified wrongly at some look: by the bound, by the estimate
}

// looks audits 2,000 drafts and looks after every 50.
func (a *audited) looks() (l looked) {
	for range 40 {
		a.audit(50)
		f := a.frontier()
		l.missed = l.missed || !a.covered(&f)
		if !l.rivalMissed {
			rival := a.rivalOf(&f)
			l.rivalMissed = !a.covered(&rival)
		}
		for j := range f.Thresholds {
			t := &f.Thresholds[j]
			accepted, bad := a.law.tail(t.Threshold)
			// Who knows the truth sets an ε between the bound and the risk, if there is one.
			l.broken = l.broken || t.Risk.High < bad/accepted
			l.rivalBroken = l.rivalBroken || t.Audits-t.Lost >= minOutcomes && t.Risk.Estimate < bad/accepted
		}
	}
	return l
}

// An interval that is wrong at one of 40 looks, for one ε of nine, is a miss. ε is chosen anew after each look, by somebody
// who knows the truth and wants the promise broken.
func TestProofAFrontierCoversTheTruthAtEveryLookWhateverEpsilonIsChosen(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	delta := frontierRule.ErrorProbability
	for i, tc := range frontierLaws {
		all := make([]looked, size(200, 1000))
		var wg sync.WaitGroup
		workers := runtime.GOMAXPROCS(0)
		for w := range workers {
			wg.Go(func() {
				for run := w; run < len(all); run += workers {
					all[run] = newAudited(tc.law, tc.lose, proofSeed+uint64(i), uint64(run)).looks()
				}
			})
		}
		wg.Wait()
		rate := func(is func(*looked) bool) (sum float64) {
			for run := range all {
				sum += flag(is(&all[run])) / float64(len(all))
			}
			return sum
		}
		missed, rivalMissed := rate(func(l *looked) bool { return l.missed }), rate(func(l *looked) bool { return l.rivalMissed })
		broken, rivalBroken := rate(func(l *looked) bool { return l.broken }), rate(func(l *looked) bool { return l.rivalBroken })
		fmt.Fprintf(t.Output(), "| %s | %d | %.3f | %.3f | %.3f | %.3f |\n", tc.name, len(all), missed, rivalMissed, broken, rivalBroken)
		if missed > delta || broken > delta/2 {
			t.Errorf("%s: the truth is outside in %.3f of the runs, a certificate wrong in %.3f", tc.name, missed, broken)
		}
		if (rivalMissed < 4*delta || rivalBroken < 4*delta) && !raced {
			t.Errorf("%s: the rivals err in %.3f and %.3f of the runs only: the test sees nothing", tc.name, rivalMissed, rivalBroken)
		}
	}
}

func TestAFrontierOfLostAuditsSaysNothing(t *testing.T) {
	a := newAudited(usual, 0, proofSeed, 2)
	a.audit(2000)
	for i := range a.all {
		a.all[i].Label = Lost
	}
	f := a.frontier()
	if f.Known || f.Lost != 2000 || f.Bad != 0 || f.Points[0].Share != (Range{High: 1}) {
		t.Errorf("%+v", f)
	}
	for i := range 40 { // and of nearly all lost: the share is known, the risk is not
		a.all[i].Label = Good
	}
	f = a.frontier()
	for _, p := range f.Points {
		if !f.Known || p.Low != 0 || p.High != len(a.grid) || p.Share.Low != 0 {
			t.Errorf("lost audits prove something: %+v", p)
		}
	}
}
