package demo

import (
	"slices"
	"testing"

	"github.com/foregate/foregate/tiers/risk"
)

func TestTheDemonstrationTellsAChangeOfTheGuaranteeOnce(t *testing.T) {
	var said []string
	r := guaranteeReport{say: func(line string) { said = append(said, line) }, last: map[string]risk.Phase{}}
	for _, phase := range []risk.Phase{risk.PhaseWarmup, risk.PhaseWarmup, risk.PhaseCertified} {
		r.tell([]risk.Summary{{Route: "r", TrafficClass: "greedy", Phase: phase, Audits: 40, Bound: .1}})
	}
	if want := []string{
		"          guarantee of r, greedy: warmup after 40 audits, disagreement below 10%",
		"          guarantee of r, greedy: certified after 40 audits, disagreement below 10%",
	}; !slices.Equal(said, want) {
		t.Errorf("%q, not %q", said, want)
	}
}
