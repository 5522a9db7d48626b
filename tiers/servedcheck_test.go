package tiers

import (
	"slices"
	"testing"

	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
)

// served is a finished draft that the client has.
func (r *auditRig) served() *draft.Draft {
	d := draft.New(r.subject.DraftOptions())
	for _, c := range r.chunks() {
		d.Take(c)
	}
	return d
}

// checks fails the test unless just these checks were counted.
func (r *auditRig) checks(want ...string) {
	r.t.Helper()
	if got := counted(r.subject.metrics.served, "result"); !slices.Equal(got, want) {
		r.t.Errorf("checked %v, want %v", got, want)
	}
	r.subject.metrics.served.Reset()
}

func TestAServedDraftIsCheckedOnceAndIsNoEvidence(t *testing.T) {
	play(t, func(r *auditRig) {
		passed, failed, released := 0, 0, 0
		r.subject.onLabel = func(good bool) {
			if failed++; good {
				passed, failed = passed+1, failed-1
			}
		}
		skipped := 0
		r.subject.onSkip = func() { skipped++ }
		r.subject.Retain = func() func() { return func() { released++ } }
		r.subject.Check(r.served(), true)
		r.happens("the target stands by it", "score")
		r.checks("passed")
		r.refuses = true
		r.subject.Check(r.served(), true)
		r.happens("the target does not", "score")
		r.checks("failed")
		r.target = func(*engine.Attempt) error { return &engine.Failure{Kind: engine.ServerError, Status: 500} }
		r.subject.Check(r.served(), true)
		r.happens("the target does not answer", "score")
		r.checks("skipped")
		if passed != 1 || failed != 1 || skipped != 1 || released != 3 || len(r.bookings) != 0 {
			t.Errorf("passed %d times, failed %d, %d bodies released, evidence %v", passed, failed, released, r.bookings)
		}
		r.drops() // a check is no audit
	})
}

func TestAServedDraftIsCheckedWithSpareCapacityOrWithinTheBudget(t *testing.T) {
	play(t, func(r *auditRig) {
		r.subject.Config.Risk.AuditBudget = 0.03
		r.priced()
		r.subject.Check(r.served(), true)
		r.happens("spare capacity", "score")
		if !r.mayAudit() {
			t.Error("charged to the budget")
		}
		r.subject.Check(r.served(), false)
		r.happens("within the budget", "score")
		if r.mayAudit() {
			t.Error("not charged to the budget")
		}
		r.subject.Check(r.served(), false)
		r.happens("the budget is spent")
		r.checks("passed", "passed", "skipped")
		if r.usd() != 2*scoreUSD {
			t.Errorf("two checks cost %g USD", r.usd())
		}
		r.subject.Config.Risk.MaxConcurrentAudits = 0
		r.subject.Check(r.served(), true)
		r.happens("audits are off")
		r.checks("skipped")
	})
}
