package risk

import (
	"fmt"
	"math"
	"testing"
)

// faults are what may happen to audits; all but the last two rows are of the boundary population.
var faults = []struct {
	name string
	fault
}{
	{"20 % of the bad outcomes lost", fault{lose: .2}},
	{"bad outcomes 100 audits late", fault{late: 100}},
	{"replicas die, one in 500 requests", fault{replicas: 3, slow: 200, death: 500}},
	{"three replicas, views 3 s old", fault{replicas: 3}},
	{"a failover every 20,000 requests", fault{slow: 50, failover: 20_000}},
	{"all of these", fault{lose: .2, late: 100, slow: 200, replicas: 3, death: 500, failover: 20_000}},
}

func TestProofThePromiseIsKeptWhateverHappensToAudits(t *testing.T) {
	for i, tc := range faults {
		tr := atBoundary(forever)
		tr.fault = tc.fault
		sum(tr.replays(proofSeed+uint64(i), size(20, 1000))).kept(t, tc.name, forever)
	}
}

// Audits that are counted when their outcome is known: which are known is no accident.
func TestProofNaiveBookingBreaksThePromise(t *testing.T) {
	for i, tc := range faults[:2] {
		tr := atBoundary(forever)
		tr.fault = tc.fault
		tr.fault.naive = true
		tr.fault.late *= 5 // the union over thresholds hides shorter delays
		f := sum(tr.replays(proofSeed+uint64(i), size(20, 300)))
		f.tell(t, fmt.Sprintf("%s, booked when known, %d audits late", tc.name, tr.fault.late))
		if f.violated <= forever.ErrorProbability && !raced {
			t.Errorf("%s: naive booking breaks the promise in %.4f of the runs only: the proof sees nothing", tc.name, f.violated)
		}
	}
}

func TestProofThreeReplicasAreAsGoodAsOne(t *testing.T) {
	runs := size(30, 1000)
	one := sum(traffic{rule: leased, requests: 200_000, first: usual}.replays(proofSeed, runs))
	three := sum(traffic{rule: leased, requests: 200_000, first: usual, fault: fault{replicas: 3}}.replays(proofSeed, runs))
	one.kept(t, "rho .20, AUROC .85, lease 2000, one replica", leased)
	three.kept(t, "the same, three replicas, views 3 s old", leased)
	if !raced && math.Abs(three.acceptance/one.acceptance-1) > .05 {
		t.Errorf("three replicas accept %.3f, one %.3f", three.acceptance, one.acceptance)
	}
}

// Where no threshold keeps to ε, audits that go on as if nothing were known would begin one epoch
// after the other, each of which may be wrong.
func TestProofWhatCannotBeCertifiedIsLeftAlone(t *testing.T) {
	corner := traffic{rule: Rule{MaxDisagreement: .02, ErrorProbability: .05, LeaseAudits: 2000, DriftRunLength: driftRun}, requests: 300_000, first: binormalOf(.20, .75)}
	without := sum(corner.replays(proofSeed, size(15, 400)))
	corner.explore = true
	with := sum(corner.replays(proofSeed, size(15, 400)))
	without.tell(t, "AUROC .75, eps .02, audits go on as when cold")
	with.tell(t, "AUROC .75, eps .02, audits at 2 % once infeasible")
	t.Logf("infeasible at the end: %.3f and %.3f of the runs", without.hopeless, with.hopeless)
	if with.audits >= without.audits && !raced {
		t.Errorf("%.4f of the requests are audited, %.4f without the switch", with.audits, without.audits)
	}
	if whole() && (with.perEpoch > .025 || with.violated > without.violated) {
		t.Errorf("a bad threshold in %.4f of the runs, %.4f without the switch, in %.4f of the epochs", with.violated, without.violated, with.perEpoch)
	}
}
