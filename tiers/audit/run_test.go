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
	play(t, func(r *rig) {
		hold, started := make(chan struct{}), 0
		for range 3 * maxAudits {
			if r.auditor.tasks.Start(time.Hour, func(context.Context) { <-hold }) {
				started++
			}
		}
		if started != maxAudits || r.auditor.MayAudit("m", &plan.Risk{MaxConcurrentAudits: 1}, false) {
			t.Errorf("%d audits run, and there may be %d", started, maxAudits)
		}
		close(hold)
		if r.rests(); !r.auditor.MayAudit("m", &plan.Risk{MaxConcurrentAudits: 1}, false) || r.auditor.MayAudit("m", &plan.Risk{}, false) {
			t.Error("an audit may not be decided on when the others are over, or may though there are to be none")
		}
	})
}

func TestNothingIsAuditedBeforeTheAuditorBeginsOrWhenItRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{World: world.System{}, Metrics: &rig{}})
		never := func(context.Context) { t.Error("it runs") }
		if a.tasks.Start(time.Hour, never) || a.MayAudit("m", &plan.Risk{MaxConcurrentAudits: 1}, true) {
			t.Error("before it begins")
		}
		ctx, cancel := context.WithCancel(t.Context())
		a.Begin(ctx)
		if cancel(); a.tasks.Start(time.Hour, never) {
			t.Error("when its time is over")
		}
		a.Wait()
		a.Wait()
	})
}
