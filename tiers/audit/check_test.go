package audit

import (
	"slices"
	"testing"

	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
)

// served is a finished draft that the client has.
func (r *rig) served() *draft.Draft {
	d := draft.New(r.subject.DraftOptions())
	for _, c := range r.chunks() {
		d.Take(c)
	}
	return d
}

// checks fails the test unless just these checks were counted.
func (r *rig) checks(want ...string) {
	r.t.Helper()
	if !slices.Equal(r.checked, want) {
		r.t.Errorf("checked %v, want %v", r.checked, want)
	}
	r.checked = nil
}

// retainer keeps a body, and returns what releases it.
type retainer func() func()

func (r retainer) Retain() (released func()) { return r() }

func TestAServedDraftIsCheckedOnceAndIsNoEvidence(t *testing.T) {
	play(t, func(r *rig) {
		passed, failed, released := 0, 0, 0
		r.subject.OnLabel = func(good bool) {
			if failed++; good {
				passed, failed = passed+1, failed-1
			}
		}
		skipped := 0
		r.subject.OnSkip = func() { skipped++ }
		r.subject.Retainer = retainer(func() func() { return func() { released++ } })
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
		if passed != 1 || failed != 1 || skipped != 1 || released != 3 || len(r.bookings) != 0 || len(r.results) != 0 {
			t.Errorf("passed %d times, failed %d, %d bodies released, evidence %v %v", passed, failed, released, r.bookings, r.results)
		}
		r.drops() // a check is no audit
	})
}

func TestAServedDraftIsCheckedWithSpareCapacityOrWithinTheBudget(t *testing.T) {
	play(t, func(r *rig) {
		r.subject.Config.Risk.AuditBudget = 0.03
		r.subject.Check(r.served(), true)
		r.happens("spare capacity", "score")
		if b := r.auditor.budgets["m"]; b != (budget{}) {
			t.Errorf("the budget is %+v", b)
		}
		r.subject.Check(r.served(), false)
		r.happens("within the budget", "score")
		if b := r.auditor.budgets["m"]; b.balance >= 0 {
			t.Errorf("not charged: %+v", b)
		}
		r.subject.Check(r.served(), false)
		r.happens("the budget is spent")
		r.checks("passed", "passed", "skipped")
		if r.audited != 2 {
			t.Errorf("the cost of %d checks", r.audited)
		}
		r.subject.Config.Risk.MaxConcurrentAudits = 0
		r.subject.Check(r.served(), true)
		r.happens("audits are off")
		r.checks("skipped")
	})
}
