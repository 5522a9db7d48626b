package audit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
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

func TestAnAuditHasAsLongAsItsRequestAndTenMinutesAtLeast(t *testing.T) {
	for total, want := range map[time.Duration]time.Duration{time.Second: auditTime, time.Hour: time.Hour} {
		play(t, func(r *rig) {
			r.subject.Config.Timeouts.Total = total
			began := time.Now()
			r.subject.newDraft().start(func(ctx context.Context) { <-ctx.Done() })
			if r.rests(); time.Since(began) != want {
				t.Errorf("%s: ended after %s", total, time.Since(began))
			}
		})
	}
}

func TestNothingIsAuditedBeforeTheAuditorBeginsOrWhenItRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := New(Options{World: world.System{}, Metrics: &rig{}})
		if err != nil {
			t.Fatal(err)
		}
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
		fate, err := a.Evidence.Open(t.Context(), risk.Audit{})
		if fate != risk.Stale || err != nil || a.Evidence.View(ownKey) != (risk.View{}) {
			t.Errorf("without evidence: %s, %v", fate, err)
		}
		if _, err := New(Options{World: world.System{}}); err == nil {
			t.Error("made without metrics")
		}
	})
}

// known is evidence of which a view is known.
type known struct {
	NoEvidence
	views map[risk.Key]risk.View
}

func (k known) View(key risk.Key) risk.View { return k.views[key] }

func TestViewsAreOfAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		evidence := known{views: map[risk.Key]risk.View{ownKey: {Op: 2, Hi: 4}}}
		a, err := New(Options{World: world.System{}, Metrics: &rig{}, Replicas: func() int { return 3 }, Evidence: evidence})
		if err != nil {
			t.Fatal(err)
		}
		want := plan.Views{Own: risk.View{Op: 2, Hi: 4}, PerMinute: 3, Now: time.Now()}
		if v := a.Views(ownKey); v != want {
			t.Errorf("%+v, want %+v", v, want)
		}
		if v := a.Views(ownKey); v.PerMinute != 6 {
			t.Errorf("%+v", v)
		}
	})
}
