package virtual

import (
	"fmt"
	"math"
	"testing"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/virtual/engines"
	"github.com/foregate/foregate/tiers/compare"
)

// candidates is a cascade whose target is compared with a candidate; DIVERGENCE and HOW vary. One conversation in three goes on.
const candidates = `
about: A cascade, and a target that is compared with the one in force.
duration: DURATION
deadline: 2m
arrivals: {poisson: 10}
prompts: [{name: chat, question: 60, turns: {min: 1, max: 2}, think: 2, output: {p50: 40, p95: 80, max: 200}}]
draft: {profile: a10g-8b, count: 2, usd_per_hour: 1, divergence: 0.25}
target: {profile: h100-70b-fp8-tp2, count: 2, usd_per_hour: 13.76}
candidate: {HOW, profile: h100-70b-fp8-tp2, usd_per_hour: 10, divergence: DIVERGENCE}
settings: {cache.mode: "off", speculation.mode: MODE}
`

// seeds are those of every proof by five runs.
const seeds = 5

// compared runs a scenario with a candidate, and returns what was recorded of it. look is called after each change.
func compared(t *testing.T, s *loadtest.Scenario, seed uint64, look func(*compare.Both)) (*lab, *compare.Both) {
	t.Helper()
	l, err := newLab(s, &s.Cases[0], seed)
	if err != nil {
		t.Fatal(err)
	}
	if look != nil {
		l.compared.Change = func(_ compare.Pair, b *compare.Both) { look(b) }
	}
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, b := range l.compared.Take() {
		return l, b
	}
	t.Fatal("nothing was compared")
	return nil, nil
}

// rowOf returns a row of a report.
func rowOf(b *compare.Both, name string) compare.Row {
	for _, r := range compare.NewReport(compare.Pair{}, &b.Incumbent, &b.Candidate).Rows {
		if r.Name == name {
			return r
		}
	}
	return compare.Row{}
}

// TestACanaryOfFivePercentTellsAWorseTargetFromAnEqualOne looks at the comparison after fixed numbers of opinions on the
// candidate. -v prints the table of docs/measurements.md.
func TestACanaryOfFivePercentTellsAWorseTargetFromAnEqualOne(t *testing.T) {
	if slow {
		t.Skip("one goroutine: the race detector has nothing to see")
	}
	seeds := uint64(seeds)
	if testing.Short() {
		seeds = 2
	}
	looks := []float64{10, 50, 100}
	for divergence, end := range map[float64]compare.Verdict{0: compare.NoneSeen, 0.5: compare.Worse} {
		for seed := range seeds {
			s := scenario(t, replace(candidates, "DURATION", "10m", "HOW", "canary: 0.05", "MODE", "risk", "DIVERGENCE", fmt.Sprint(divergence)))
			var seen []compare.Row
			_, b := compared(t, s, seed+1, func(b *compare.Both) {
				if n := b.Candidate.Opinions.N; len(seen) < len(looks) && n == looks[len(seen)] {
					seen = append(seen, rowOf(b, "agreement"))
				}
			})
			for _, r := range seen {
				t.Logf("| %g | %d | %3.0f | %.2f of %.0f | %.2f | %+.2f … %+.2f | %s |",
					divergence, seed+1, r.Candidate.N, r.Incumbent.Value, r.Incumbent.N, r.Candidate.Value, r.Difference.Low, r.Difference.High, r.Verdict)
			}
			share := b.Candidate.Answers / (b.Candidate.Answers + b.Incumbent.Answers)
			if math.Abs(share-0.05) > 0.01 || b.Candidate.Unanswered != b.Incumbent.Unanswered {
				t.Errorf("divergence %g, seed %d: the candidate has %g of the answers; without an answer: %v and %v", divergence, seed+1, share, b.Incumbent.Unanswered, b.Candidate.Unanswered)
			}
			if len(seen) < len(looks) || seen[0].Verdict != compare.TooFew || seen[len(seen)-1].Verdict != end {
				t.Errorf("divergence %g, seed %d: want %s before, %s after %g opinions", divergence, seed+1, compare.TooFew, end, looks[len(looks)-1])
			}
		}
	}
}

// spentOnAudits sums up what engines computed for nobody's answer: tokens generated, and tokens of scores.
func spentOnAudits(l *lab) (generated, scored int) {
	l.each(func(p *engines.Pool) {
		for _, b := range p.Backends {
			generated += b.Audits.Decoded
			scored += b.Audits.Scored
		}
	})
	return generated, scored
}

// TestAMirrorCostsWhatItSaysAndDelaysNobody compares runs with and without a mirror. The engines' own counters are the
// witness of the cost: in mode off nothing else is computed in the background. -v prints the table of docs/measurements.md.
func TestAMirrorCostsWhatItSaysAndDelaysNobody(t *testing.T) {
	if slow {
		t.Skip("one goroutine: the race detector has nothing to see")
	}
	seeds := uint64(seeds)
	if testing.Short() {
		seeds = 2
	}
	for _, share := range []float64{0.02, 0.2} {
		for seed := range seeds {
			without := row(t, scenario(t, replace(candidates, "DURATION", "3m", "HOW", "mirror: 0", "MODE", `"off"`, "DIVERGENCE", "0.3")), seed+1)
			l, b := compared(t, scenario(t, replace(candidates, "DURATION", "3m", "HOW", fmt.Sprint("mirror: ", share), "MODE", `"off"`, "DIVERGENCE", "0.3")), seed+1, nil)
			with, m := l.result().Row(), b.Mirror
			generated, scored := spentOnAudits(l)
			t.Logf("| %g | %d | %.0f of %d | %.0f and %.0f tokens, %.2f USD | %.0f → %.0f | %.0f → %.0f | %.0f → %.0f |", share, seed+1, m.Made, with.Requests,
				m.Generated, m.Scored, m.USD, without.TTFT95, with.TTFT95, without.TTFT99, with.TTFT99, without.E2E99, with.E2E99)
			if int(m.Generated) != generated || int(m.Scored) != scored || m.USD <= 0 {
				t.Errorf("share %g, seed %d: %+v, and the engines tell %d and %d tokens", share, seed+1, m, generated, scored)
			}
			if later := max(with.TTFT95/without.TTFT95, with.TTFT99/without.TTFT99, with.E2E99/without.E2E99); share <= 0.02 && later > 1.05 {
				t.Errorf("share %g, seed %d: clients wait %.2f times as long", share, seed+1, later)
			}
			n := float64(with.Requests)
			if math.Abs(m.Made+m.Skipped-share*n) > 4*math.Sqrt(share*(1-share)*n) {
				t.Errorf("share %g, seed %d: %g of %g requests", share, seed+1, m.Made+m.Skipped, n)
			}
		}
	}
}
