package audit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/world"
)

func TestNoMoreAuditsRunThanThereMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := New(Options{World: world.System{}})
		a.Tasks.Begin(ctx)
		hold, started := make(chan struct{}), 0
		for range 3 * maxAudits {
			if a.Tasks.Start(time.Hour, func(context.Context) { <-hold }) {
				started++
			}
		}
		if started != maxAudits || a.MayAudit("m", &plan.Risk{MaxConcurrentAudits: 1}, false) {
			t.Errorf("%d audits run, and there may be %d", started, maxAudits)
		}
		close(hold)
		a.Tasks.Wait()
		a.Tasks.Begin(ctx)
		if !a.MayAudit("m", &plan.Risk{MaxConcurrentAudits: 1}, false) || a.MayAudit("m", &plan.Risk{}, false) {
			t.Error("an audit may not be decided on when the others are over, or may though there are to be none")
		}
		cancel()
		a.Tasks.Wait()
	})
}

func TestNothingIsAuditedBeforeTheAuditorBeginsOrWhenItRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{World: world.System{}})
		never := func(context.Context) { t.Error("it runs") }
		if a.Tasks.Start(time.Hour, never) || a.MayAudit("m", &plan.Risk{MaxConcurrentAudits: 1}, true) {
			t.Error("before it begins")
		}
		ctx, cancel := context.WithCancel(t.Context())
		a.Tasks.Begin(ctx)
		if cancel(); a.Tasks.Start(time.Hour, never) {
			t.Error("when its time is over")
		}
		a.Tasks.Wait()
		a.Tasks.Wait()
	})
}
