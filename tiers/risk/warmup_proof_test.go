package risk

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// The promise is of what a certificate serves. A warm-up before it must not break it: its audits choose nothing by the draft, and
// what it serves is in no epoch.
func TestProofAWarmupBreaksNoPromise(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	for i, tc := range []struct {
		name string
		traffic
		warming
	}{
		{"rho .20, AUROC .85, lease 2000, warm-up", traffic{rule: leased, requests: 200_000, first: usual}, warming{1, .3, time.Hour}},
		{"rho .10, AUROC .75, lease 2000, warm-up, 5 % audited", traffic{rule: leased, requests: 200_000, first: laws[1].law}, warming{.05, .3, time.Hour}},
		{"boundary at index 8, one epoch, warm-up", atBoundary(forever), warming{1, .3, time.Hour}},
		{"boundary at index 8, one epoch, warm-up, 30 % audited", atBoundary(forever), warming{.3, 1, time.Hour}},
		{"the same, with all faults", atBoundary(forever), warming{1, .3, time.Hour}},
		{"boundary at index 1, one epoch, warm-up", atBoundary(forever), warming{1, .3, time.Hour}},
	} {
		tr := tc.traffic
		tr.warm = &tc.warming
		switch i {
		case 4:
			tr.fault = faults[len(faults)-1].fault
		case 5:
			tr.wall = 1
		}
		f := sum(tr.replays(proofSeed+uint64(i), size(10, 300)))
		if f.tell(t, tc.name); f.violated > tr.rule.ErrorProbability+.01 && !raced || i != 5 && f.allRisk > tr.rule.MaxDisagreement {
			t.Errorf("%s: a bad threshold in %.4f of the runs; of what was served by certificates %.4f was bad", tc.name, f.violated, f.allRisk)
		}
	}
}

// hour is an hour of a warm-up alone.
type hour struct {
	name string
	law  population
	warming
	fault
}

// worstLaw is the law by which a warm-up serves as long as it may: what it serves is bad a little more often than ε.
func worstLaw(r Rule) population {
	return stepped{wall: 2. / 3, before: 1, edge: 1.05 * r.MaxDisagreement}
}

// run plays it at so many requests a second.
func (h hour) run(seed uint64, pace, runs int) []result {
	tr := traffic{rule: leased, requests: 3600 * pace, first: h.law, warm: &h.warming, fault: h.fault, pace: pace}
	return tr.replays(seed, runs)
}

func TestProofWhatAWarmupServesAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	all := warming{audited: 1, prior: .3, lasts: time.Hour}
	var hours []hour
	for _, rho := range []float64{.02, .10, .20, .40, .60} {
		for _, auroc := range []float64{.50, .75, .95} {
			hours = append(hours, hour{name: fmt.Sprintf("rho %.2f, AUROC %.2f", rho, auroc), law: binormalOf(rho, auroc), warming: all})
		}
	}
	worst := hour{name: "best third at 1.05 ε", law: worstLaw(leased), warming: all}
	hours = append(hours, worst)
	for i, h := range hours {
		for _, pace := range []int{1, 4, 20} {
			h.tell(t, pace, h.run(proofSeed+uint64(i), pace, size(4, 400)))
		}
	}
	for i, h := range []hour{
		{"rho 0.40, AUROC 0.75, 30 % audited", binormalOf(.40, .75), warming{.3, .3, time.Hour}, fault{}},
		{"rho 0.40, AUROC 0.75, 5 % audited", binormalOf(.40, .75), warming{.05, .3, time.Hour}, fault{}},
		{"rho 0.40, AUROC 0.50, a prior that accepts all", binormalOf(.40, .50), warming{1, 1, time.Hour}, fault{}},
		{"rho 0.40, AUROC 0.75, three replicas, views 3 s old", binormalOf(.40, .75), all, fault{replicas: 3}},
		{"rho 0.40, AUROC 0.75, bad outcomes 30 s late", binormalOf(.40, .75), all, fault{slow: 600}},
		{"rho 0.40, AUROC 0.75, half of the bad outcomes lost", binormalOf(.40, .75), all, fault{lose: .5}},
		{"rho 0.40, AUROC 0.75, all bad outcomes lost", binormalOf(.40, .75), all, fault{lose: 1}},
		{"best third at 1.05 ε, 5 % audited", worst.law, warming{.05, .3, time.Hour}, fault{}},
		{"best third at 2 ε", stepped{wall: 2. / 3, before: 1, edge: 2 * leased.MaxDisagreement}, all, fault{}},
		{"best third at 2 ε, 5 % audited", stepped{wall: 2. / 3, before: 1, edge: 2 * leased.MaxDisagreement}, warming{.05, .3, time.Hour}, fault{}},
	} {
		h.tell(t, 20, h.run(proofSeed+uint64(100+i), 20, size(4, 400)))
	}
}

// tell prints a row of a table of docs/measurements.md, and fails where more was served wrongly than the bound allows.
func (h hour) tell(t *testing.T, pace int, of []result) {
	t.Helper()
	n, excess := float64(len(of)), 0.
	var ended [4]float64
	for i := range of {
		ended[of[i].ended] += 1 / n
		excess += (float64(of[i].wrong) - leased.MaxDisagreement*float64(of[i].served)) / n
	}
	served := func(o *result) int { return o.served }
	wrong := func(o *result) int { return o.wrong }
	until := func(o *result) int { return o.endedAt / pace }
	fmt.Fprintf(t.Output(), "| %s | %d | %d (%d) | %d (%d) | %.1f | %.0f / %.0f / %.0f / %.0f | %.1f (%.1f) |\n", h.name, pace,
		middle(of, .5, served), middle(of, .99, served), middle(of, .5, wrong), middle(of, .99, wrong), excess,
		100*ended[WarmupCertified], 100*ended[WarmupDisagreement], 100*ended[WarmupInfeasible], 100*ended[WarmupRuns],
		float64(middle(of, .5, until))/60, float64(middle(of, .99, until))/60)
	if most := warmupExcess(leased, 3600*pace); h.audited == 1 && h.fault == (fault{}) && whole() && excess > most {
		t.Errorf("%s, %d/s: %.1f wrong drafts beyond ε, the bound is %.1f", h.name, pace, excess, most)
	}
}

// warmupExcess bounds how many wrong drafts beyond ε a warm-up serves on average, whatever their law, where all are audited and
// outcomes are known at once; served is how many it can serve. Where each served draft is bad with probability p, the mixture is a
// seventh of each bet r at least, so that the warm-up is over when that bet has made 7/δ of 1; by Wald's identity that takes
// (ln(7/δ) + ln(r/ε)) / (p·ln(r/ε) + (1−p)·ln((1−r)/(1−ε))) audits on average at most.
func warmupExcess(r Rule, served int) float64 {
	worst := 0.
	for p := r.MaxDisagreement; p < 1; p += .0005 {
		takes := float64(served)
		for _, above := range betsAbove {
			bet := min(above.times*r.MaxDisagreement, (1+r.MaxDisagreement)/2)
			if grows := p*math.Log(bet/r.MaxDisagreement) + (1-p)*(math.Log1p(-bet)-math.Log1p(-r.MaxDisagreement)); grows > 0 {
				takes = min(takes, (math.Log(float64(len(betsAbove))/r.ErrorProbability)+math.Log(bet/r.MaxDisagreement))/grows)
			}
		}
		worst = max(worst, (p-r.MaxDisagreement)*takes)
	}
	return worst
}

func TestTheBoundOfAWarmup(t *testing.T) {
	for _, eps := range []float64{.05, .1, .2} {
		r := Rule{MaxDisagreement: eps, ErrorProbability: .05}
		t.Logf("ε %.2f: at most %.0f, %.0f, %.0f wrong drafts beyond ε of 1,080, 4,320, 21,600 served", eps, warmupExcess(r, 1080), warmupExcess(r, 4320), warmupExcess(r, 21600))
	}
	if small, large := warmupExcess(leased, 1080), warmupExcess(leased, 21600); small <= 0 || small > large {
		t.Errorf("%g of 1,080, %g of 21,600", small, large)
	}
}
