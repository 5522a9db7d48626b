package audit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/world"
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
	known := economy.Prices{TargetPrefill: 3, TargetDecode: 5}.Target() // whatever a draft costs
	for what, c := range map[string]struct {
		tally       Tally
		usd, tokens float64
	}{
		"nothing":                     {Tally{Prompt: 100, Drafted: 9, Accepted: 9}, 0, 0},
		"an answer":                   {Tally{Prompt: 100, Target: 10}, 350, 110},
		"a score":                     {Tally{Prompt: 100, Scored: 120}, 360, 120},
		"a score, and the rest of it": {Tally{Prompt: 100, Scored: 120, Target: 10}, 710, 230},
	} {
		if usd := c.tally.TargetCost(known); usd != c.usd {
			t.Errorf("%s: %g USD, want %g", what, usd, c.usd)
		}
		if n := c.tally.TargetCost(economy.TokenPrice{}); n != c.tokens {
			t.Errorf("%s: %g tokens, want %g", what, n, c.tokens)
		}
	}
}

// TestDollarsOfAuditsComeEvenlyOverTheDay: what is paid comes back at the rate of the day, and no more than an hour of it is kept.
func TestDollarsOfAuditsComeEvenlyOverTheDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := New(Options{World: world.System{}})
		a.Tasks.Begin(ctx)
		limit := plan.Risk{AuditUSDPerDay: 24, MaxConcurrentAudits: 1}
		may := func() bool { return a.MayAudit("m", &limit, true) }
		if !may() {
			t.Fatal("there is no first audit")
		}
		a.Charge("m", &limit, 0, .5) // half of an hour's dollar
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
		a.Charge("m", &limit, 0, 1.5)
		if time.Sleep(29 * time.Minute); may() {
			t.Error("more than an hour's dollars were kept")
		}
		if limit.AuditUSDPerDay = 0; !may() {
			t.Error("without a limit there is one")
		}
		spent, now := 0.0, a.World.Now()
		for limit.AuditUSDPerDay = 24; a.World.Now().Sub(now) < 24*time.Hour; time.Sleep(time.Minute) {
			if may() {
				spent += .1
				a.Charge("m", &limit, 0, .1)
			}
		}
		if spent < 22 || spent > 24.2 {
			t.Errorf("%g dollars were spent in a day, of 24", spent)
		}
	})
}
