package cache

import (
	"testing"
	"time"

	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/internal/redistest"
)

func TestAnAnswerThatCameTooLateIsServedFromItsCopy(t *testing.T) {
	s := redistest.Start(t)
	k := keyNo(1)
	w := storeAt(t, s.Addr)
	running(t, w)
	keep(t, w, k, answerOf(k, 100))
	o := redistest.OnRequests(redistest.StartProxy(t, s.Addr, 4*defaultBudget).Addr)
	o.ReadTimeout = time.Second
	r := NewStore(Options{Redis: redistest.Client(t, o)})
	wantFound(t, r, k, ResultLate)
	redistest.Within(t, 5*time.Second, "there is a copy", func() bool { _, ok := r.Local(k); return ok })
}

func TestAFrozenRedisCostsAFewLooksTheirBudgetAndThenNothing(t *testing.T) {
	s := redistest.Start(t)
	r := NewStore(Options{Redis: redistest.Client(t, redistest.OnRequests(s.Addr))})
	running(t, r)
	k := keyNo(1)
	redistest.Within(t, 5*time.Second, "it is asked", func() bool { _, f := r.Look(t.Context(), k); return f == ResultMiss })
	s.Freeze()
	found := map[Result]int{}
	var waited time.Duration
	for range 1000 {
		began := time.Now()
		_, f := r.Look(t.Context(), k)
		found[f]++
		waited += time.Since(began)
	}
	if found[ResultLate]+found[ResultError] > 2*calls.MaxFailures || found[ResultAway] < 900 {
		t.Errorf("%v", found)
	}
	if waited > time.Second { // five budgets, and a machine that stalls
		t.Errorf("1,000 looks waited for %v", waited)
	}
	t.Logf("%v in %v", found, waited)
	putDropped(t, r, k) // dropped, at once
	s.Thaw()
	redistest.Within(t, 10*time.Second, "it is asked again", func() bool { _, f := r.Look(t.Context(), k); return f == ResultMiss })
	keep(t, r, k, answerOf(k, 10))
	wantFound(t, r, k, ResultHit)
}

// putDropped puts what is dropped while Redis is away.
func putDropped(t *testing.T, r *Store, k Key) {
	t.Helper()
	before := count(r.metrics.dropped, droppedAway)
	told := false
	r.Put(k, answerOf(k, 10), time.Hour, func() { told = true })
	if got := count(r.metrics.dropped, droppedAway) - before; got != 1 || !told {
		t.Errorf("%d dropped, told %t", got, told)
	}
}
