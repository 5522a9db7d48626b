package limits

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/internal/redis/lookup"
	"github.com/foregate/foregate/internal/redistest"
)

// outages runs a test in virtual time with three replicas at one miniredis, and a hand that
// cuts them all off from it or brings it back, emptied in between where lost says so.
func outages(t *testing.T, test func(t *testing.T, fleet []*replica, reach func(there bool))) {
	t.Helper()
	skipRaced(t)
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("emptied %t", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, o := redistest.Embedded(t, redistest.OnRequests)
				cut := &redistest.Network{}
				o.Dialer = cut.Dial(o.Dialer)
				var fleet []*replica
				var stops []func()
				for range 3 {
					r := join(t, o, 3)
					fleet, stops = append(fleet, r), append(stops, r.run(t))
				}
				synctest.Wait()
				test(t, fleet, func(there bool) { reach(m, cut, there, lost) })
				for i, r := range fleet {
					stops[i]()
					_ = r.redis.Close()
				}
			})
		})
	}
}

func reach(m *miniredis.Miniredis, cut *redistest.Network, there, lost bool) {
	if was := cut.Off.Swap(!there); was && there && lost {
		m.FlushAll()
	}
}

// spells are outages of 2 to 14 seconds, one in each quarter of a minute but the first.
func spells(passed time.Duration) (there bool) {
	for i, seconds := range []int{2, 4, 3, 14, 5, 2, 9, 2} {
		from := time.Duration(i+1)*15*time.Second + time.Duration(i*137)*time.Millisecond
		if passed >= from && passed < from+time.Duration(seconds)*time.Second {
			return false
		}
	}
	return true
}

func TestATenantAtHalfOfItsLimitIsNotRefusedWhenRedisGoesOrReturns(t *testing.T) {
	for _, c := range []int{60, 120, 300, 1200} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			outages(t, func(t *testing.T, fleet []*replica, reach func(bool)) {
				a := Request{Tenant: "acme", Limit: Limit{RPM: c, TPM: 300 * c}, Tokens: 200}
				begun, every := time.Now(), 2*time.Minute/time.Duration(c/2)
				for i := 0; time.Since(begun) < 150*time.Second; i++ {
					reach(spells(time.Since(begun)))
					for range 2 {
						if !fleet[i%3].ask(t, a) {
							t.Errorf("refused after %v, replica %d", time.Since(begun), i%3)
						}
					}
					time.Sleep(every)
				}
				if c >= 600 && (fleet[0].results(lookup.ResultSkipped) == 0 || fleet[0].results(lookup.ResultShared) == 0) {
					t.Error("Redis did not go and come")
				}
			})
		})
	}
}

func TestNoMinuteSeesMoreThanTheLimitAndItsBurstHoweverOftenRedisGoes(t *testing.T) {
	for _, c := range []int{60, 300, 600} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			outages(t, func(t *testing.T, fleet []*replica, reach func(bool)) {
				const run = 150 * time.Second
				at := offer(t, fleet, Request{Tenant: "acme", Limit: Limit{RPM: c}}, 3*c, run, func(passed time.Duration) { reach(spells(passed)) })
				slices.SortFunc(at, time.Time.Compare)
				// Three of a small limit are its burst; two come from replicas that differ by one request each.
				maxSlots, least := max(c*102/100, c+3+2), int(float64(c)*run.Minutes()*0.93)
				if got := maxInAMinute(at); got > maxSlots {
					t.Errorf("%d in one minute, more than %d", got, maxSlots)
				}
				if len(at) < least {
					t.Errorf("only %d, less than %d", len(at), least)
				}
				t.Logf("limit %d: %d of %v, at most %d in one minute", c, len(at), float64(c)*run.Minutes(), maxInAMinute(at))
			})
		})
	}
}

func TestWhatWasLetInWithoutRedisIsToldOnceEvenByOneWhoIsRefused(t *testing.T) {
	outages(t, func(t *testing.T, fleet []*replica, reach func(bool)) {
		r, a := fleet[0], Request{Tenant: "acme", Limit: Limit{RPM: 1200, TPM: 60_000}, Tokens: 100}
		r.enter(t, a)
		reach(false)
		for range lookup.MaxFailures {
			r.ask(t, Request{Tenant: "other", Limit: a.Limit})
		}
		r.enter(t, Request{Tenant: "acme", Limit: a.Limit, Tokens: 20_000})
		reach(true)
		redistest.Within(t, 5*time.Second, "Redis is asked again", func() bool { return !r.asker.Away() })
		first := r.refused(t, a).Status.Tokens.Reset
		if first < 14*time.Second || first > 25*time.Second {
			t.Errorf("20,000 tokens were let in without Redis, and %v are owed", first)
		}
		time.Sleep(time.Second)
		for _, r := range fleet {
			if got := r.refused(t, a).Status.Tokens.Reset; got < first-1100*time.Millisecond || got >= first {
				t.Errorf("%v were owed, and %v a second later", first, got)
			}
		}
	})
}
