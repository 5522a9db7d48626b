package audit

import (
	"testing"

	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

func TestARouteSavesUpForSoManyAuditsOnly(t *testing.T) {
	var b budget
	for range 1000 {
		b.earn(3)
	}
	if b.balance != 3*maxBalance {
		t.Errorf("before an audit: saved %g", b.balance)
	}
	b = budget{}
	b.spend(10)
	b.spend(0) // one that asked nobody
	for range 1000 {
		b.earn(10)
	}
	if b.balance != 10*maxBalance {
		t.Errorf("saved %g", b.balance)
	}
	b.earn(-1e6)
	if b.earn(0); b.balance >= 0 {
		t.Errorf("a debt is forgotten: %g", b.balance)
	}
}

func TestTheTargetsTokensCostWhatTheyCost(t *testing.T) {
	known := economy.Prices{DraftPrefill: 1, DraftDecode: 2, TargetPrefill: 3, TargetDecode: 5}
	for what, c := range map[string]struct {
		tally       inflight.Tally
		usd, tokens float64
	}{
		"nothing":                     {inflight.Tally{Prompt: 100, Drafted: 9, Accepted: 9}, 0, 0},
		"an answer":                   {inflight.Tally{Prompt: 100, Target: 10}, 350, 110},
		"a score":                     {inflight.Tally{Prompt: 100, Scored: 120}, 360, 120},
		"a score, and the rest of it": {inflight.Tally{Prompt: 100, Scored: 120, Target: 10}, 710, 230},
	} {
		if usd, priced := TargetCost(c.tally, known); usd != c.usd || !priced {
			t.Errorf("%s: %g USD, want %g", what, usd, c.usd)
		}
		if n, priced := TargetCost(c.tally, economy.Prices{TargetPrefill: 3}); n != c.tokens || priced {
			t.Errorf("%s: %g tokens, want %g", what, n, c.tokens)
		}
	}
}

func TestWhichKeysADraftIsEvidenceFor(t *testing.T) {
	at := func(k risk.Key, version int64, audited bool) risk.Decision {
		return risk.Decision{Key: k, Version: version, Floor: -3, Audited: audited}
	}
	for what, c := range map[string]struct {
		trial        plan.AuditDecision
		score        float64
		learns, want string // buckets
	}{
		"its kind":                  {plan.AuditDecision{Own: at(ownKey, 1, true)}, -1, "", "own"},
		"below the region":          {plan.AuditDecision{Own: at(ownKey, 1, true)}, -4, "", ""},
		"at its edge":               {plan.AuditDecision{Own: at(ownKey, 1, true)}, -3, "", "own"},
		"no grid yet":               {plan.AuditDecision{Own: at(ownKey, 0, true)}, -4, "own", ""},
		"the warm-up":               {plan.AuditDecision{Own: at(ownKey, 0, true), Warmup: true, Cautious: -1}, -1, "own", "own"},
		"the warm-up served it not": {plan.AuditDecision{Own: at(ownKey, 1, true), Warmup: true, Cautious: 0}, -1, "", "own"},
	} {
		learns, want := "", ""
		for _, e := range entriesOf(&c.trial, c.score) {
			switch {
			case e.needsScoreOnly():
				learns += e.TrafficClass
			case e.counts():
				want += e.TrafficClass
			}
		}
		if learns != c.learns || want != c.want {
			t.Errorf("%s: learns %q, counts for %q; want %q, %q", what, learns, want, c.learns, c.want)
		}
	}
}
