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

func TestEachAnswerOfARequestTakesAPlace(t *testing.T) {
	r := join(t, nil, 1)
	asks := func(answers int) Request {
		return Request{Tenant: "acme", Limit: Limit{Concurrent: 4}, Answers: answers}
	}
	three := r.enter(t, asks(3))
	if e := r.refused(t, asks(2)); e.Limit != Concurrency || e.NeverFits || e.Requested != 2 || e.Max != 4 {
		t.Errorf("a fifth answer: %+v", e)
	}
	one := r.enter(t, asks(0))
	_ = r.refused(t, asks(1))
	three.Settle(0)
	one.Settle(0)
	if e := r.refused(t, asks(5)); e.Limit != Concurrency || !e.NeverFits || e.Requested != 5 || e.Max != 4 {
		t.Errorf("more answers than places: %+v", e)
	}
	leave, err := r.AcquireSlot(asks(0))
	if err != nil {
		t.Fatal(err)
	}
	placed := asks(4)
	placed.HasSlot = true
	all := r.enter(t, placed)
	_ = r.refused(t, asks(1))
	all.Settle(0)
	r.enter(t, asks(3)).Settle(0)
	leave()
	r.enter(t, asks(4)).Settle(0)
}

func TestAListThatIsLongerThanAReplicasShareTakesAllOfIt(t *testing.T) {
	r := join(t, nil, 1)
	r.replicas = func() int { return 4 }
	a := Request{Tenant: "acme", Limit: Limit{Concurrent: 8}, Answers: 8} // two places here
	g := r.enter(t, a)
	a.Answers = 1
	_ = r.refused(t, a)
	g.Settle(0)
	r.enter(t, a).Settle(0)
}
