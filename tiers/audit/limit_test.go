package audit

import (
	"fmt"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

func TestAMixOfAHundredThousandPromptsTakesLittleRoom(t *testing.T) {
	var all Classes
	for i := range 100_000 {
		all.CountInMix(ownKey, MixKey{Application: fmt.Sprint("acme/once", i)})
		all.CountInMix(ownKey, MixKey{Application: "acme/often"})
	}
	if m := all.mixOf(ownKey, false).traffic; len(m.Counts) > 64 || 10*m.Counts["acme/often"] < 4*m.Total {
		t.Errorf("%d applications are counted; the one with half of the requests %d times of %d", len(m.Counts), m.Counts["acme/often"], m.Total)
	}
}

// An easy application that is only watched makes no room for the errors of a hard one that is served.
func TestAnApplicationInModeShadowIsNoPartOfTheMixThatIsServed(t *testing.T) {
	rule := risk.Rule{MaxDisagreement: .10, MaxDisagreementApplication: .3, ErrorProbability: .05, LeaseAudits: 10_000}
	var past []risk.LogEntry
	for i := range 1000 {
		for name, one := range map[string]int{"acme/easy": 100, "acme/hard": 9} { // so many audits have one bad draft
			past = append(past, risk.LogEntry{
				Audit: risk.Audit{Decision: risk.Decision{Floor: -risk.Unreachable, Chance: 1}, Application: name},
				Label: risk.LabelOf(i%one == 0), When: time.Unix(int64(i), 0),
			})
		}
	}
	var s risk.State
	now := time.Unix(1001, 0)
	s.ApplyImport(rule, risk.PlanImport(rule, risk.Grid{-1}, past), now)
	v := s.View(rule)
	v.Seen = now
	served := func(watched bool) (hard bool) {
		all := new(Classes)
		for range 4 * limitEvery {
			v.Seen = v.Seen.Add(time.Second)
			mixed := func(risk.Key) *risk.KeyState { return &risk.KeyState{State: s.Copy(), Rule: rule} }
			easy, hardOne := MixKey{"acme/easy", watched}, MixKey{"acme/hard", false}
			all.CountInMix(ownKey, easy)
			all.CountInMix(ownKey, hardOne)
			all.Limit(ownKey, v, easy, mixed)
			w := all.Limit(ownKey, v, hardOne, mixed)
			hard = w.Serves()
		}
		return hard
	}
	if !served(false) || served(true) {
		t.Errorf("the hard one is served: %v with the easy one, %v while that is only watched", served(false), served(true))
	}
}
