package audit

import (
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/inflight"
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
		if usd, priced := targetCost(c.tally, known); usd != c.usd || !priced {
			t.Errorf("%s: %g USD, want %g", what, usd, c.usd)
		}
		if n, priced := targetCost(c.tally, economy.Prices{TargetPrefill: 3}); n != c.tokens || priced {
			t.Errorf("%s: %g tokens, want %g", what, n, c.tokens)
		}
	}
}

// TestDollarsOfAuditsComeEvenlyOverTheDay: what is paid comes back at the rate of the day, and no more than an hour of it is kept.
func TestDollarsOfAuditsComeEvenlyOverTheDay(t *testing.T) {
	play(t, func(r *rig) {
		r.subject.Config.Risk.AuditUSDPerDay = 24
		risk := r.subject.Config.Risk
		may := func() bool { return r.auditor.MayAudit("m", &risk, true) }
		if !may() {
			t.Fatal("there is no first audit")
		}
		r.auditor.charge(r.subject.Request, 0, .5) // half of an hour's dollar
		if may() {
			t.Error("what is paid may be paid again at once")
		}
		time.Sleep(29 * time.Minute)
		if may() {
			t.Error("the dollars are back too soon")
		}
		if time.Sleep(2 * time.Minute); !may() {
			t.Error("the dollars are not back")
		}
		time.Sleep(48 * time.Hour)
		r.auditor.charge(r.subject.Request, 0, 1.5)
		if time.Sleep(29 * time.Minute); may() {
			t.Error("more than an hour's dollars were kept")
		}
		if risk.AuditUSDPerDay = 0; !may() {
			t.Error("without a limit there is one")
		}
		spent, now := 0.0, r.auditor.World.Now()
		for risk.AuditUSDPerDay = 24; r.auditor.World.Now().Sub(now) < 24*time.Hour; time.Sleep(time.Minute) {
			if may() {
				spent += .1
				r.auditor.charge(r.subject.Request, 0, .1)
			}
		}
		if spent < 22 || spent > 24.2 {
			t.Errorf("%g dollars were spent in a day, of 24", spent)
		}
	})
}
