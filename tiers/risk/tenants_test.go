package risk

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestProofEasyTrafficOfOneTenantLoosensTheThresholdOfOthersByItsShareOnly: for each draft of the others that a threshold
// accepts it accepts r = share/(1 − share)·A'/A of the easy ones, where A and A' are the shares of their drafts that it
// accepts. So what the others are served is wrong at a rate of ε·(1 + r) at most. The share of one tenant is capped at a
// half; without the cap it is the tenant's share of the traffic.
func TestProofEasyTrafficOfOneTenantLoosensTheThresholdOfOthersByItsShareOnly(t *testing.T) {
	const eps = .05
	rule := Rule{MaxDisagreement: eps, ErrorProbability: .05, LeaseAudits: 1 << 40, DriftRunLength: 1e300}
	others := binormalOf(.40, .80)
	easy := binormal{0, others.shift} // never wrong, and scored as the others' good drafts are
	risks, most := map[float64]float64{}, map[float64]float64{}
	for _, share := range []float64{0, .5, .97} {
		for seed := range uint64(size(20, 300)) {
			s, rng := new(State), rand.New(rand.NewPCG(proofSeed, seed))
			for i := range 20_000 {
				who := others
				if rng.Float64() < share {
					who = easy
				}
				score, bad := who.draw(rng)
				now, ticket := time.Unix(int64(i), 0), fmt.Sprint(i)
				if d := s.View(rule).Decide(Key{}, Sampling{Rate: 1, FullRange: .2}, rng.Float64()); score >= d.Floor {
					s.Open(rule, &Audit{Decision: d, Score: score, Ticket: ticket}, now)
					s.Close(rule, ticket, bad)
				}
			}
			if s.Op > 0 {
				accepted, wrong := others.tail(s.Grid.At(s.Op))
				passed, _ := easy.tail(s.Grid.At(s.Op))
				if risk := wrong / accepted; risk > risks[share] {
					risks[share], most[share] = risk, eps*(1+share/(1-share)*passed/accepted)
				}
			}
		}
		fmt.Fprintf(t.Output(), "| %.2f | %.3f | %.3f |\n", share, risks[share], most[share])
	}
	if risks[0] > eps || risks[.5] > most[.5] || most[.5] > 3*eps || risks[.97] < 6*eps {
		t.Errorf("the others' risk by the share of easy traffic: %v", risks)
	}
}
