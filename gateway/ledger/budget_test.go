package ledger

import (
	"fmt"
	"math"
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
	r := join(t, nil, 1)
	a := Request{Tenant: "acme", Budgets: []identity.Budget{tokensPer(100, identity.Day), {NanoUSD: 1e9, Per: identity.Day}}, Tokens: 40, USD: 0.3}
	first, second := r.enter(t, a), r.enter(t, a)
	e := r.exhausted(t, a)
	if e.Budget.Tokens != 100 || e.Need != 40 || e.Left != 20 || e.Wait <= 0 || e.Wait > 24*time.Hour || e.Uncounted {
		t.Errorf("%+v", e)
	}
	first.Settle(10, 0.8)
	first.Settle(90, 9) // a second call does nothing
	second.Settle(0, 0)
	if e := r.exhausted(t, a); e.Budget.NanoUSD != 1e9 || e.Left != 2e8 {
		t.Errorf("%+v", e)
	}
	a.USD = 0.2
	r.enter(t, a).Settle(-1, 0.2) // unknown tokens: the estimate stays
	if s := r.used(t, "acme", a.Budgets[0]); s.Used != 50 || s.Reserved != 0 || !s.Shared {
		t.Errorf("%+v", s)
	}
	a.Tokens, a.USD = 1, 0
	if e := r.exhausted(t, a); e.Budget.NanoUSD == 0 || e.Left != 0 { // exhausted, even if nobody knows what the request costs
		t.Errorf("%+v", e)
	}
	if got := testutil.ToFloat64(r.metrics.exhausted.WithLabelValues("usd")); got != 2 {
		t.Errorf("%v refusals for dollars", got)
	}
}

func TestWhatIsOnlyReservedIsWaitedForShortly(t *testing.T) {
	test := func(t *testing.T, r, other *replica) {
		a := Request{Tenant: "acme", Budgets: []identity.Budget{tokensPer(100, identity.Month)}, Tokens: 60}
		first := other.enter(t, a)
		if e := r.exhausted(t, a); !e.Reserved || e.Wait <= 0 || e.Wait > 3*time.Second {
			t.Errorf("another request has reserved 60, and nothing is used: %+v", e)
		}
		first.Settle(10, 0)
		time.Sleep(time.Second)
		r.enter(t, a).Settle(60, 0) // it passes when the other has ended
		if e := r.exhausted(t, a); e.Reserved || e.Wait < time.Hour {
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
		bubble(t, 2, func(t *testing.T, fleet []*replica, _ *miniredis.Miniredis, _ *redistest.Network) {
			test(t, fleet[0], fleet[1])
		})
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
			r := join(t, o, 1, c.use).run(t)
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
	long := r.enter(t, a)
	if e := r.exhausted(t, a); e.Budget != hour || e.Wait > 30*time.Minute {
		t.Errorf("%+v", e)
	}
	c.forward(30 * time.Minute)
	r.enter(t, a).Settle(50, 0)
	if e := r.exhausted(t, a); e.Budget != day || e.Wait > time.Hour {
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
	time.Sleep(time.Second)
	if s := r.used(t, "acme", day); s.Used != 0 {
		t.Errorf("the next day: %+v", s)
	}
}

func TestATenantWhoseBudgetIsInUseIsNotForgotten(t *testing.T) {
	r := join(t, gone(), 1)
	month := []identity.Budget{tokensPer(100, identity.Month)}
	var first *Reservation
	for i := range maxTenants {
		g := r.enter(t, Request{Tenant: fmt.Sprint(i), Budgets: month, Tokens: 1})
		if i == 0 {
			first = g
		}
	}
	if e := r.exhausted(t, Request{Tenant: "new", Budgets: month, Tokens: 1}); !e.Uncounted {
		t.Errorf("%+v", e)
	}
	first.Settle(1, 0)
	clear(r.unsent) // as if Redis had been told
	let := false
	for range 10 * maxTenants / maxPassed { // each looks at some
		let = let || r.settle(t, Request{Tenant: "newer", Budgets: month, Tokens: 1}, 1)
	}
	if n := len(r.tenants); !let || n > maxTenants+2 {
		t.Errorf("an idle one makes no room, or too much: %d tenants", n)
	}
}

func TestDollarsAreCountedInWholeNanoDollarsRoundedUp(t *testing.T) {
	for usd, want := range map[float64]int64{
		0: 0, -1: 0, 1e-12: 1, 1e-9: 1, 1.5e-9: 2, 0.25: 250_000_000, 1e12: maxAmount, math.Inf(1): maxAmount, math.Inf(-1): 0,
	} {
		if got := nanos(usd); got != want {
			t.Errorf("%g: %d, want %d", usd, got, want)
		}
	}
	if got := nanos(math.NaN()); got != 0 {
		t.Errorf("NaN: %d", got)
	}
}

func TestAReplicaByItselfAddsItsPartOfWhatWasLeft(t *testing.T) {
	b := tokensPer(100, identity.Day)
	for _, c := range []struct {
		name              string
		others, base, own int64 // own includes ask
		ask               int64
		replicas          int
		want              bool
	}{
		{"nothing is spent", 0, 0, 33, 33, 3, true},
		{"more than its part", 0, 0, 34, 34, 3, false},
		{"alone it has all", 0, 0, 100, 100, 1, true},
		{"alone it has no more", 0, 0, 101, 101, 1, false},
		{"what others have spent is gone", 70, 0, 10, 10, 3, true},
		{"and its part is smaller", 70, 0, 11, 11, 3, false},
		{"its own before the loss does not count against its part", 10, 60, 70, 10, 3, true},
		{"but what it added since does", 10, 60, 71, 11, 3, false},
		{"exhausted, and the cost is unknown", 60, 40, 40, 0, 3, false},
		{"not exhausted, and the cost is unknown", 60, 30, 30, 0, 3, true},
		{"overspent", 200, 0, 1, 1, 3, false},
		{"what it gave back may be used again", 10, 60, 60, 30, 3, true},
	} {
		w := window{own: part{settled: cost{ofTokens: c.own}}, others: part{settled: cost{ofTokens: c.others}}, base: cost{ofTokens: c.base}}
		if got := w.admits(b, cost{ofTokens: c.ask}, c.replicas); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
