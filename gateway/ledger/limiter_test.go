package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/internal/redistest"
)

func TestARefusalTellsTheLimitTheWaitAndTheWindow(t *testing.T) {
	places(t, func(t *testing.T, r *replica) {
		a := Request{Tenant: "acme", Limit: Limit{RPM: 600, TPM: 60_000}, Tokens: 272}
		for i := range 12 {
			if g := r.enter(t, a); g.Requests.Remaining != 11-i || g.Requests.Limit != 600 {
				t.Fatalf("request %d: %+v", i, g.Requests)
			}
		}
		e := r.refused(t, a)
		if e.Limit != Tokens || e.Max != 60_000 || e.Requested != 272 || e.Wait != 264*time.Millisecond {
			t.Errorf("%+v: want 3,264 tokens owed, of which 264 are too many", e)
		}
		want := Status{Requests: Window{600, 0, 1200 * time.Millisecond}, Tokens: Window{60_000, 0, 3264 * time.Millisecond}}
		if e.Status != want {
			t.Errorf("got %+v, want %+v", e.Status, want)
		}
		time.Sleep(e.Wait)
		r.enter(t, a)
		a.Limit.TPM = 0
		r.enter(t, a)
		if e := r.refused(t, a); e.Limit != Requests || e.Max != 600 || e.Wait.Round(time.Millisecond) != 36*time.Millisecond {
			t.Errorf("%+v", e)
		}
	})
}

func TestWhatCanNeverBeLetInIsHopeless(t *testing.T) {
	places(t, func(t *testing.T, r *replica) {
		limit := Limit{TPM: 1000, Concurrent: 1}
		e := r.refused(t, Request{Tenant: "acme", Limit: limit, Tokens: 1001})
		if !e.NeverFits || e.Limit != Tokens || !strings.Contains(e.Error(), "1001 tokens at once, more than its 1000") {
			t.Errorf("%+v", e)
		}
		if g := r.enter(t, Request{Tenant: "acme", Limit: limit, Tokens: 1000}); g.Tokens.Remaining != 0 {
			t.Errorf("%+v", g.Tokens)
		}
	})
}

func TestTokensAreSettledByWhatWasUsed(t *testing.T) {
	places(t, func(t *testing.T, r *replica) {
		limit := Limit{TPM: 6000} // 100 a second, 300 may be owed
		settle := func(estimate, used int) {
			g := r.enter(t, Request{Tenant: "acme", Limit: limit, Tokens: estimate})
			g.Settle(used, 0)
			g.Settle(used, 0) // does nothing
			time.Sleep(flushInterval + time.Millisecond)
		}
		debt := func() time.Duration {
			return r.refused(t, Request{Tenant: "acme", Limit: limit, Tokens: 1}).Status.Tokens.Reset.Round(100 * time.Millisecond)
		}
		settle(1000, 500)
		if got := debt(); got != 4700*time.Millisecond {
			t.Errorf("half was given back, and %v are owed", got)
		}
		time.Sleep(time.Minute)
		settle(1000, 2000)
		if got := debt(); got != 19700*time.Millisecond {
			t.Errorf("as much again was charged, and %v are owed", got)
		}
		time.Sleep(time.Minute)
		settle(1000, -1)
		if got := debt(); got != 9700*time.Millisecond {
			t.Errorf("the estimate stood, and %v are owed", got)
		}
		time.Sleep(time.Minute)
		settle(1000, 1<<40)
		if got := debt(); got > maxLevel*time.Minute {
			t.Errorf("%v are owed", got)
		}
	})
}

func TestARefundGivesNoMoreThanABurst(t *testing.T) {
	places(t, func(t *testing.T, r *replica) {
		limit := Limit{TPM: 60_000}
		var grants []*Reservation
		for range 6 {
			grants = append(grants, r.enter(t, Request{Tenant: "acme", Limit: limit, Tokens: 30_000}))
			time.Sleep(30 * time.Second)
		}
		for _, g := range grants {
			g.Settle(0, 0)
		}
		time.Sleep(time.Second)
		let := 0
		for range 100 {
			if r.ask(t, Request{Tenant: "acme", Limit: limit, Tokens: 500}) {
				let++
			}
		}
		if let != 7 { // 3,000 owed let one more in
			t.Errorf("%d at once after a refund", let)
		}
	})
}

func TestConcurrentRequestsAreThisReplicasShare(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fleet []*replica, _ *miniredis.Miniredis, _ *redistest.Network) {
		r, a := fleet[0], Request{Tenant: "acme", Limit: Limit{Concurrent: 4}}
		before := r.writes.Load()
		first, _ := r.enter(t, a), r.enter(t, a)
		e := r.refused(t, a)
		if e.Limit != Concurrency || e.Max != 4 || e.Here != 2 || e.Wait != time.Second {
			t.Errorf("%+v", e)
		}
		first.Settle(-1, 0)
		first.Settle(-1, 0)
		r.enter(t, a)
		r.refused(t, a)
		if got := r.writes.Load() - before; got > 0 {
			t.Errorf("%d round trips", got)
		}
		for range 3 {
			r.refused(t, Request{Tenant: "beta", Limit: Limit{Concurrent: 1, TPM: 10}, Tokens: 11}) // takes no place
		}
		held := r.enter(t, Request{Tenant: "beta", Limit: Limit{Concurrent: 1, RPM: 1}})
		held.Settle(-1, 0)
		r.refused(t, Request{Tenant: "beta", Limit: Limit{Concurrent: 1, RPM: 1}}) // gives its place back
		r.enter(t, Request{Tenant: "beta", Limit: Limit{Concurrent: 1}})
	})
}

func TestHighBeyondItsShareIsDemoted(t *testing.T) {
	places(t, func(t *testing.T, r *replica) {
		const minutes = 4
		a := Request{Tenant: "acme", Limit: Limit{RPM: 600, HighShare: 0.2}, High: true}
		high, let := 0, 0
		for range minutes * 1200 {
			if g, err := r.Reserve(t.Context(), a); err == nil {
				let++
				if !g.Demoted {
					high++
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
		if low, maxSlots := minutes*120, minutes*120+30; high < low || high > maxSlots {
			t.Errorf("%d of %d stayed high, want %d to %d", high, let, low, maxSlots)
		}
		if got := int(testutil.ToFloat64(r.metrics.demoted)); got != let-high {
			t.Errorf("%d counted", got)
		}
		for _, a := range []Request{
			{Tenant: "b", Limit: Limit{RPM: 600}, High: true},
			{Tenant: "c", Limit: Limit{TPM: 6000, HighShare: 0.2}, High: true},
			{Tenant: "d", Limit: Limit{RPM: 600, HighShare: 0.2}},
		} {
			for range 10 {
				if g := r.enter(t, a); g.Demoted {
					t.Errorf("%+v was demoted", a)
				}
			}
		}
	})
}

// sdk is one client of a storm: it tries, and twice again unless told not to.
type sdk struct {
	tries int
	at    time.Duration
}

// storm is what clients that retry as SDKs do make of a service that refuses two of three.
type storm struct {
	limit    Limit         // of the tenant; zero: the service sheds
	again    time.Duration // the Retry-After of what it sheds
	replicas int           // a client's tries go to one after the other
}

// run returns how many first tries and how many tries were sent in three minutes.
func (s storm) run(t *testing.T) (first, attempts int) {
	const clients, step = 1000, 10 * time.Millisecond
	var fleet []*replica
	for range s.replicas {
		fleet = append(fleet, join(t, nil, 1))
	}
	due := make([]sdk, clients)
	for i := range due { // 6,000 a minute
		due[i].at = time.Duration(i) * step
	}
	room := 0.0
	for now := time.Duration(0); now < 3*time.Minute; now += step {
		room = min(room+2000.0/60*step.Seconds(), 2)
		for i := range due {
			d := &due[i]
			if d.at > now {
				continue
			}
			if d.tries == 0 {
				first++
			}
			attempts++
			r := fleet[(i+d.tries)%len(fleet)]
			_, err := r.Reserve(t.Context(), Request{Tenant: "acme", Limit: s.limit, Retry: d.tries > 0})
			wait, limited := s.again, (*LimitError)(nil)
			refused := errors.As(err, &limited)
			if refused {
				wait = max(limited.Wait, time.Second)
			} else if refused = s.limit.RPM == 0 && room < 1; !refused {
				room--
			}
			invited := refused && d.tries < 2
			if limited != nil {
				invited = invited && limited.Retry
			} else {
				var told bool
				if invited {
					wait, told = r.AdviseRetry("acme", d.tries > 0, s.again)
				}
				invited = invited && told
			}
			if invited {
				d.tries++
				d.at = now + wait + rand.N(time.Second)
				continue
			}
			d.tries, d.at = 0, now+10*time.Second // the next request of its own
		}
		time.Sleep(step)
	}
	counted := 0.0
	for _, r := range fleet {
		counted += testutil.ToFloat64(r.metrics.retry)
	}
	if counted != float64(attempts-first) {
		t.Errorf("%v retries were counted, %d were sent", counted, attempts-first)
	}
	return first, attempts
}

func TestAStormOfRetriesStaysWithinItsBudgetHoweverLongClientsAreToldToWait(t *testing.T) {
	skipRaced(t)
	for name, c := range map[string]storm{
		"a tenant at its limit":     {Limit{RPM: 2000}, 0, 1},
		"shed, back in 1 s":         {Limit{}, time.Second, 1},
		"shed, back in 5 s":         {Limit{}, 5 * time.Second, 1},
		"shed, back in 30 s":        {Limit{}, 30 * time.Second, 1},
		"shed by three, back in 5s": {Limit{}, 5 * time.Second, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, attempts := c.run(t)
				amplification := float64(attempts) / float64(first)
				t.Logf("%d attempts for %d requests: %.3f", attempts, first, amplification)
				bound := 1.1
				if c.limit.RPM > 0 { // each retry has a place within the limit
					bound = 1 + 3*float64(c.limit.RPM)/float64(first)
				}
				if amplification > bound+float64(c.replicas)/float64(first) || amplification < 1.05 {
					t.Errorf("amplification %.3f", amplification)
				}
			})
		})
	}
}

// TestWhoWaitsAsToldHasAPlaceOfItsOwn sends more at once than a limit admits: all but those whose place is too far are told to come
// again, and are admitted when they do, however often the tenant was refused before.
func TestWhoWaitsAsToldHasAPlaceOfItsOwn(t *testing.T) {
	for name, a := range map[string]Request{
		"requests": {Tenant: "acme", Limit: Limit{RPM: 12}},
		"tokens":   {Tenant: "acme", Limit: Limit{TPM: 1200}, Tokens: 100},
	} {
		t.Run(name, func(t *testing.T) {
			places(t, func(t *testing.T, r *replica) {
				for round := range 3 {
					var waits []time.Duration
					refused := 0
					for range 20 {
						_, err := r.Reserve(t.Context(), a)
						var e *LimitError
						switch {
						case !errors.As(err, &e):
						case e.Retry:
							waits = append(waits, e.Wait)
						default:
							refused++
						}
					}
					if n := r.replicas(); len(waits) < 8/n || len(waits) > 11/n+1 || refused == 0 {
						t.Fatalf("round %d: %d are told to come again, %d are not: each of %d replicas has a place every %d s", round, len(waits), refused, n, 5*n)
					}
					began := time.Now()
					for _, wait := range waits {
						time.Sleep(time.Until(began.Add(wait)))
						r.enter(t, a)
					}
					time.Sleep(time.Minute)
				}
			})
		})
	}
}

func TestTenantsAreBoundedAndOneWithRequestsUnderWayIsNotForgotten(t *testing.T) {
	r := join(t, nil, 1)
	busy := Request{Tenant: "busy", Limit: Limit{Concurrent: 1}}
	held := r.enter(t, busy)
	for i := range maxTenants + 10 {
		r.ask(t, Request{Tenant: fmt.Sprint(i)})
	}
	if n := len(r.tenants); n != maxTenants {
		t.Errorf("%d tenants", n)
	}
	r.refused(t, busy)
	held.Settle(-1, 0)
	r.enter(t, busy)
}
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
		g.Settle(10, 0)
		if e := r.refused(t, a); e.Limit != Concurrency {
			t.Errorf("the place is given back by what did not take it: %+v", e)
		}
		leave()
		r.enter(t, a).Settle(10, 0)
		if got := testutil.ToFloat64(r.metrics.limited.WithLabelValues(string(Concurrency))); got != 3 {
			t.Errorf("%v refusals are counted, want 3", got)
		}
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
	three.Settle(0, 0)
	one.Settle(0, 0)
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
	all.Settle(0, 0)
	r.enter(t, asks(3)).Settle(0, 0)
	leave()
	r.enter(t, asks(4)).Settle(0, 0)
}

func TestAListThatIsLongerThanAReplicasShareTakesAllOfIt(t *testing.T) {
	r := join(t, gone(), 4)

	a := Request{Tenant: "acme", Limit: Limit{Concurrent: 8}, Answers: 8} // two places here
	g := r.enter(t, a)
	a.Answers = 1
	_ = r.refused(t, a)
	g.Settle(0, 0)
	r.enter(t, a).Settle(0, 0)
}
