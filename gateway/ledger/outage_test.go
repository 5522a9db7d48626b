package ledger

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/internal/redistest"
)

// maxInAMinute is the most admissions in any minute of a run.
func maxInAMinute(at []time.Time) (most int) {
	from := 0
	for i, t := range at {
		for t.Sub(at[from]) >= time.Minute {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// offer has the replicas asked in turn, so often a minute, for so long. It returns when they
// let in. A step may be done before each request.
func offer(t *testing.T, fleet []*replica, a Request, rpm int, d time.Duration, before func(passed time.Duration)) (at []time.Time) {
	t.Helper()
	begun := time.Now()
	for i := 0; ; i++ {
		due := time.Duration(i) * time.Minute / time.Duration(rpm)
		if due >= d {
			return at
		}
		time.Sleep(time.Until(begun.Add(due)))
		if before != nil {
			before(due)
		}
		if fleet[i%len(fleet)].ask(t, a) {
			at = append(at, time.Now())
		}
	}
}

func TestThreeReplicasTogetherAdmitTheLimitInEveryMinute(t *testing.T) {
	for _, c := range []struct {
		limit       int // a minute, of what a costs
		a           Request
		cost        int
		any, within float64 // more than the limit in any minute, and on average
	}{ // a burst of four is more than 2 % of a small limit
		{600, Request{Limit: Limit{RPM: 600}}, 1, 0.02, 0.02},
		{60, Request{Limit: Limit{RPM: 60}}, 1, 4.0 / 60, 4.0 / 60},
		{200_000, Request{Limit: Limit{TPM: 200_000, RPM: 10_000}, Tokens: 500}, 500, 0.0525, 0.02},
	} {
		t.Run(fmt.Sprint(c.limit), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, fleet []*replica, _ *miniredis.Miniredis, _ *redistest.Network) {
				const minutes = 3
				c.a.Tenant = "acme"
				at := offer(t, fleet, c.a, 3*c.limit/c.cost, minutes*time.Minute, nil)
				if most := maxInAMinute(at) * c.cost; float64(most) > float64(c.limit)*(1+c.any) {
					t.Errorf("%d in one minute", most)
				}
				if got := float64(len(at)*c.cost) / minutes; got < 0.95*float64(c.limit) || got > float64(c.limit)*(1+c.within) {
					t.Errorf("%v a minute", got)
				}
			})
		})
	}
}

func TestWithoutRedisThreeReplicasAdmitNoMoreThanTheLimit(t *testing.T) {
	skipRaced(t)
	for c, shared := range map[int]*redis.Options{600: gone(), 60: gone(), 6: gone(), 300: nil} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet := []*replica{join(t, shared, 3), join(t, shared, 3), join(t, shared, 3)}
				at := offer(t, fleet, Request{Tenant: "acme", Limit: Limit{RPM: c}}, 3*c, 4*time.Minute, nil)
				if most := maxInAMinute(at); most > c {
					t.Errorf("%d in one minute", most)
				}
				if len(at) < c*4*85/100 {
					t.Errorf("only %d in four minutes", len(at))
				}
				t.Logf("limit %d: %v a minute, at most %d in any", c, float64(len(at))/4, maxInAMinute(at))
				for _, r := range fleet {
					if shared != nil {
						_ = r.redis.Close()
					}
				}
			})
		})
	}
}

func TestARequestRefusedForOneLimitUsesUpNeither(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fleet []*replica, _ *miniredis.Miniredis, _ *redistest.Network) {
		r, limit := fleet[0], Limit{RPM: 600, TPM: 1000}
		if !r.ask(t, Request{Tenant: "acme", Limit: limit, Tokens: 900}) {
			t.Fatal("the first was refused")
		}
		for range 100 {
			if r.ask(t, Request{Tenant: "acme", Limit: limit, Tokens: 900}) {
				t.Fatal("let in beyond the limit of tokens")
			}
		}
		g, err := r.Reserve(t.Context(), Request{Tenant: "acme", Limit: Limit{RPM: 600}})
		if err != nil || g.Requests.Remaining != 10 {
			t.Errorf("%+v, %v: want 10 left of a burst of 12", g, err)
		}
	})
}

func TestALargeRequestIsNotStarvedBySmallOnes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fleet []*replica, _ *miniredis.Miniredis, _ *redistest.Network) {
		limit := Limit{TPM: 60_000}
		let := 0
		offer(t, fleet, Request{Tenant: "acme", Limit: limit, Tokens: 100}, 3*600, 4*time.Minute, func(passed time.Duration) {
			if passed%(5*time.Second) == 0 && fleet[1].ask(t, Request{Tenant: "acme", Limit: limit, Tokens: 10_000}) {
				let++
			}
		})
		if let < 4 {
			t.Errorf("%d large requests were let in", let)
		}
	})
}

// A replica that has just started has not heard of anybody; nor did Redis answer in time.
func TestWhoIsNewLetsInHalfABurstAndTwoAtLeastWhereABurstHasTwo(t *testing.T) {
	now := time.Unix(1e9, 0)
	for share, want := range map[int]int{1: 1, 10: 1, 20: 2, 25: 2, 30: 2, 40: 2, 200: 2, 600: 6, 6000: 60} {
		w, fresh := Limit{RPM: share}.local(1), tenant{}
		fresh.start(w, now)
		let := 0
		for w[ofRequests].wait(fresh.local.now[ofRequests]) == 0 {
			fresh.local.now[ofRequests]++
			let++
		}
		if let != want || float64(let) > w[ofRequests].burst() {
			t.Errorf("of %d a minute it lets in %d at once, want %d of a burst of %g", share, let, want, w[ofRequests].burst())
		}
	}
}

// outages runs a test in virtual time with three replicas at one miniredis, and a hand that
// cuts them all off from it or brings it back, emptied in between where lost says so.
func outages(t *testing.T, test func(t *testing.T, fleet []*replica, reach func(there bool))) {
	t.Helper()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("emptied %t", lost), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, fleet []*replica, m *miniredis.Miniredis, cut *redistest.Network) {
				test(t, fleet, func(there bool) { reach(m, cut, there, lost) })
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
				if c >= 600 && (fleet[0].limitResults(calls.ResultSkipped) == 0 || fleet[0].limitResults(calls.ResultShared) == 0) {
					t.Error("Redis did not go and come")
				}
			})
		})
	}
}

func TestNoMinuteSeesMoreThanTheLimitAndABurstForEachTimeThatRedisReturns(t *testing.T) {
	for _, c := range []int{60, 300, 600} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			outages(t, func(t *testing.T, fleet []*replica, reach func(bool)) {
				const run = 150 * time.Second
				at := offer(t, fleet, Request{Tenant: "acme", Limit: Limit{RPM: c}}, 3*c, run, func(passed time.Duration) { reach(spells(passed)) })
				slices.SortFunc(at, time.Time.Compare)
				const returns = 5 // in a minute, at most; two more come from replicas that differ by one request each
				burst := Limit{RPM: c}.shared()[ofRequests].burst()
				most, least := c+2+int((1+returns)*burst), int(float64(c)*run.Minutes()*0.93)
				if got := maxInAMinute(at); got > most {
					t.Errorf("%d in one minute, more than %d", got, most)
				}
				if len(at) < least {
					t.Errorf("only %d, less than %d", len(at), least)
				}
				t.Logf("limit %d: %d of %v, at most %d in one minute", c, len(at), float64(c)*run.Minutes(), maxInAMinute(at))
			})
		})
	}
}
