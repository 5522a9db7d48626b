package limits

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestAPlaceThatWasTakenBeforeIsNotTakenAgain(t *testing.T) {
	places(t, func(t *testing.T, r *replica) {
		a := Request{Tenant: "acme", Limit: Limit{RPM: 600, Concurrent: 1}, Tokens: 10}
		leave, err := r.AcquireSlot(a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.AcquireSlot(a); !errors.Is(err, ErrLimited) {
			t.Errorf("a second place: %v", err)
		}
		if e := r.refused(t, a); e.Limit != Concurrency {
			t.Errorf("a request without a place: %+v", e)
		}
		placed := a
		placed.HasSlot = true
		g := r.enter(t, placed)
		g.Settle(10)
		if e := r.refused(t, a); e.Limit != Concurrency {
			t.Errorf("the place is given back by what did not take it: %+v", e)
		}
		leave()
		r.enter(t, a).Settle(10)
		if got := testutil.ToFloat64(r.metrics.limited.WithLabelValues(string(Concurrency))); got != 3 {
			t.Errorf("%v refusals are counted, want 3", got)
		}
	})
}

func TestATenantWithoutALimitOnPlacesNeedsNone(t *testing.T) {
	places(t, func(t *testing.T, r *replica) {
		leave, err := r.AcquireSlot(Request{Tenant: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		leave()
	})
}
