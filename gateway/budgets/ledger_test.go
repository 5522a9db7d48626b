package budgets

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redistest"
)

func TestWithoutRedisOneReplicaHasTheWholeBudget(t *testing.T) {
	r := join(t, nil, 3)
	a := Request{Tenant: "acme", Budgets: []identity.Budget{tokensPer(100, identity.Day), {NanoUSD: 1e9, Per: identity.Day}}, Tokens: 40, USD: 0.3}
	first, second := r.reserve(t, a), r.reserve(t, a)
	e := r.refused(t, a)
	if e.Budget.Tokens != 100 || e.Need != 40 || e.Left != 20 || e.Wait <= 0 || e.Wait > 24*time.Hour || e.Uncounted {
		t.Errorf("%+v", e)
	}
	first.Settle(10, 0.8)
	first.Settle(90, 9) // a second call does nothing
	second.Cancel()
	if e := r.refused(t, a); e.Budget.NanoUSD != 1e9 || e.Left != 2e8 {
		t.Errorf("%+v", e)
	}
	a.USD = 0.2
	r.reserve(t, a).Settle(-1, 0.2) // unknown tokens: the estimate stays
	if s := r.used(t, "acme", a.Budgets[0]); s.Used != 50 || s.Reserved != 0 || !s.Shared {
		t.Errorf("%+v", s)
	}
	a.Tokens, a.USD = 1, 0
	if e := r.refused(t, a); e.Budget.NanoUSD == 0 || e.Left != 0 { // exhausted, even if nobody knows what the request costs
		t.Errorf("%+v", e)
	}
	if got := testutil.ToFloat64(r.metrics.refused.WithLabelValues(refusedUSD)); got != 2 {
		t.Errorf("%v refusals for dollars", got)
	}
}

func TestATenantWithoutBudgetsHasNoReservationAndCostsNothing(t *testing.T) {
	r := join(t, nil, 1)
	g := r.reserve(t, Request{Tenant: "acme", Tokens: 5})
	g.Settle(5, 1)
	g.Cancel()
	if g != nil || len(r.windows) != 0 {
		t.Error("it is counted")
	}
}

func TestWhatIsOnlyReservedIsWaitedForShortly(t *testing.T) {
	test := func(t *testing.T, r, other *replica) {
		a := Request{Tenant: "acme", Budgets: []identity.Budget{tokensPer(100, identity.Month)}, Tokens: 60}
		first := other.reserve(t, a)
		if e := r.refused(t, a); !e.Reserved || e.Wait <= 0 || e.Wait > 3*time.Second {
			t.Errorf("another request has reserved 60, and nothing is used: %+v", e)
		}
		first.Settle(10, 0)
		time.Sleep(time.Second)
		r.reserve(t, a).Settle(60, 0) // it passes when the other has ended
		if e := r.refused(t, a); e.Reserved || e.Wait < time.Hour {
			t.Errorf("70 of 100 are used, and 60 are asked for: %+v", e)
		}
	}
	t.Run("alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := join(t, nil, 1)
			test(t, r, r)
		})
	})
	t.Run("by another replica", func(t *testing.T) {
		bubble(t, 2, func(t *testing.T, fleet []*replica, _ *miniredis.Miniredis) { test(t, fleet[0], fleet[1]) })
	})
}

// calendar is a clock that can be set forward.
type calendar struct{ ahead atomic.Int64 }

func (c *calendar) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *calendar) use(o *Options)          { o.Now = c.now }
func (c *calendar) forward(d time.Duration) { c.ahead.Add(int64(d)) }

func TestANewWindowBeginsWithTheCalendarAndARequestCountsWhereItBegan(t *testing.T) {
	t.Run("alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var c calendar
			overMidnight(t, join(t, nil, 1, c.use), &c)
		})
	})
	t.Run("in Redis", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var c calendar
			m, o := redistest.Embedded(t, redistest.OnRequests)
			r := join(t, o, 1, c.use)
			r.settle(t, Request{Tenant: "warm", Budgets: []identity.Budget{tokensPer(100, identity.Day)}, Tokens: 1}, 1)
			time.Sleep(refillTime + time.Second)
			overMidnight(t, r, &c)
			r.stop()
			_ = r.redis.Close()
			m.Close()
			synctest.Wait()
		})
	})
}

// overMidnight begins at 2000-01-01 00:00 UTC.
func overMidnight(t *testing.T, r *replica, c *calendar) {
	day, hour := tokensPer(100, identity.Day), tokensPer(60, identity.Hour)
	a := Request{Tenant: "acme", Budgets: []identity.Budget{day, hour}, Tokens: 50}
	c.forward(22*time.Hour + 30*time.Minute)
	long := r.reserve(t, a)
	if e := r.refused(t, a); e.Budget != hour || e.Wait > 30*time.Minute {
		t.Errorf("%+v", e)
	}
	c.forward(30 * time.Minute)
	r.reserve(t, a).Settle(50, 0)
	if e := r.refused(t, a); e.Budget != day || e.Wait > time.Hour {
		t.Errorf("%+v", e)
	}
	long.Settle(20, 0) // it frees 30 of the day, and nothing of this hour
	time.Sleep(time.Second)
	if s := r.used(t, "acme", hour); s.Used != 50 {
		t.Errorf("this hour: %+v", s)
	}
	if s := r.used(t, "acme", day); s.Used != 70 || s.Reserved != 0 {
		t.Errorf("this day: %+v", s)
	}
	c.forward(time.Hour)
	time.Sleep(3 * refreshInterval)
	if s := r.used(t, "acme", day); s.Used != 0 {
		t.Errorf("the next day: %+v", s)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.windows); n > 0 {
		t.Errorf("%d windows are kept after their end", n)
	}
}

func TestWindowsInMemoryAreBoundedAndAnIdleOneMakesRoom(t *testing.T) {
	r := New(Options{Redis: redistest.Client(t, redistest.OnRequests("127.0.0.1:1"))})
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range maxWindows {
		w := r.window(string(rune('a'+i%26))+time.Duration(i).String(), identity.Day, now)
		w.own.reserved.tokens = 1
	}
	if r.window("new", identity.Day, now) != nil {
		t.Error("a window in use was forgotten")
	}
	for _, w := range r.windows {
		w.own.reserved.tokens = 0
		break
	}
	if r.window("new", identity.Day, now) == nil || len(r.windows) != maxWindows {
		t.Error("an idle window makes no room")
	}
}
