package limits

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/internal/redis/lookup"
	"github.com/foregate/foregate/internal/redistest"
)

// belated runs a test in virtual time with one of three replicas, whose Redis answers as late as the test says.
func belated(t *testing.T, test func(t *testing.T, r *replica, m *miniredis.Miniredis, late func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m, o := redistest.Embedded(t, redistest.OnRequests)
		network := &redistest.Network{}
		o.Dialer = network.Dial(o.Dialer)
		r := join(t, o, 3)
		stop := r.run(t)
		synctest.Wait()
		test(t, r, m, func(d time.Duration) { network.Latency.Store(int64(d)) })
		stop()
		_ = r.redis.Close()
	})
}

// debt is what Redis has of a tenant, as fields of its hash.
func debt(m *miniredis.Miniredis, tenant string) [3]string {
	key := keyLimit + tenant
	return [3]string{m.HGet(key, "r"), m.HGet(key, "t"), m.HGet(key, "h")}
}

const tooLate = defaultBudget + 5*time.Millisecond

func TestAChargeThatWasToldTooLateIsSettledByWhatWasUsed(t *testing.T) {
	for name, before := range map[string]bool{"the request ends first": true, "the answer comes first": false} {
		t.Run(name, func(t *testing.T) {
			belated(t, func(t *testing.T, r *replica, m *miniredis.Miniredis, late func(time.Duration)) {
				a := Request{Tenant: "acme", Limit: Limit{RPM: 600, TPM: 60_000}, Tokens: 30_000}
				late(tooLate)
				g := r.enter(t, a)
				if got := r.results(resultLate); got != 1 {
					t.Fatalf("%d were late", got)
				}
				if before {
					g.Settle(100)
				}
				time.Sleep(tooLate)
				if !before {
					g.Settle(100)
				}
				late(0)
				time.Sleep(flushInterval + time.Millisecond)
				if got := debt(m, "acme"); got[1] != "0.000000" { // 100 of 1,000 a second
					t.Errorf("%s tokens are owed for 100", got[1])
				}
			})
		})
	}
}

func TestAChargeThatWasToldTooLateIsGivenBackWhereThisReplicaRefused(t *testing.T) {
	belated(t, func(t *testing.T, r *replica, m *miniredis.Miniredis, late func(time.Duration)) {
		a := Request{Tenant: "acme", Limit: Limit{RPM: 6, TPM: 600, HighShare: 0.5}, Tokens: 10, High: true}
		r.enter(t, a)
		m.Del(keyLimit + "acme") // it lets in what this replica would not
		late(tooLate)
		r.refused(t, a)
		time.Sleep(tooLate)
		if got := debt(m, "acme"); got[0] == "" {
			t.Fatal("nothing was charged")
		}
		late(0)
		time.Sleep(flushInterval + time.Millisecond)
		if got := debt(m, "acme"); got != [3]string{"0.000000", "0.000000", "0.000000"} {
			t.Errorf("%s requests, %s tokens, %s of priority high are owed for one that was refused", got[0], got[1], got[2])
		}
	})
}

func TestAChargeThatWasToldTooLateIsNotOfPriorityHighWhereThisReplicaDemoted(t *testing.T) {
	for name, before := range map[string]bool{"the request ends first": true, "the answer comes first": false} {
		t.Run(name, func(t *testing.T) {
			belated(t, func(t *testing.T, r *replica, m *miniredis.Miniredis, late func(time.Duration)) {
				a := Request{Tenant: "acme", Limit: Limit{RPM: 600, HighShare: 0.01}, High: true}
				late(tooLate)
				r.enter(t, a)
				m.Del(keyLimit + "acme") // it charges priority high where this replica would not
				g := r.enter(t, a)
				if !g.Demoted {
					t.Fatal("it is not demoted")
				}
				if before {
					g.Settle(-1)
				}
				time.Sleep(tooLate)
				if got := debt(m, "acme"); got[2] != "1.000000" {
					t.Fatalf("%s of priority high are charged", got[2])
				}
				if !before {
					g.Settle(-1)
				}
				late(0)
				time.Sleep(flushInterval + time.Millisecond)
				if got := debt(m, "acme"); got[2] != "0.000000" {
					t.Errorf("%s of priority high are owed for one that was demoted", got[2])
				}
			})
		})
	}
}

// leaves lets a request in of which Redis is told too late, and has Redis left alone.
func (r *replica) leaves(t *testing.T, late func(time.Duration)) (Request, *Reservation) {
	t.Helper()
	a := Request{Tenant: "acme", Limit: Limit{TPM: 60_000}, Tokens: 30_000}
	late(tooLate)
	g := r.enter(t, a)
	for range lookup.MaxFailures {
		r.ask(t, Request{Tenant: "other", Limit: Limit{TPM: 60_000}})
	}
	if !r.asker.Away() {
		t.Fatal("Redis is not left alone")
	}
	return a, g
}

func TestARefundWaitsForARedisThatIsLeftAlone(t *testing.T) {
	belated(t, func(t *testing.T, r *replica, m *miniredis.Miniredis, late func(time.Duration)) {
		_, g := r.leaves(t, late)
		g.Settle(100)
		time.Sleep(2 * flushInterval)
		late(0)
		redistest.Within(t, 5*time.Second, "Redis is asked again", func() bool { return !r.asker.Away() })
		time.Sleep(flushInterval + time.Millisecond)
		if got := debt(m, "acme"); got[1] != "0.000000" {
			t.Errorf("%s tokens are owed for 100", got[1])
		}
	})
}

func TestARefundThatWaitedForRedisIsLessByWhatHasDrainedMeanwhile(t *testing.T) {
	belated(t, func(t *testing.T, r *replica, m *miniredis.Miniredis, late func(time.Duration)) {
		a, g := r.leaves(t, late)
		g.Settle(100)
		time.Sleep(time.Minute) // all that was charged has drained
		late(0)
		redistest.Within(t, 20*time.Second, "Redis is asked again", func() bool { return !r.asker.Away() })
		r.ask(t, a)
		time.Sleep(flushInterval + time.Millisecond)
		if got, err := strconv.ParseFloat(debt(m, "acme")[1], 64); err != nil || got < 29_000 {
			t.Errorf("%v tokens are owed for 30,000, %v", got, err)
		}
	})
}
