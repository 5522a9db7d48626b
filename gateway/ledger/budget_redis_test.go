package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/internal/redistest"
)

// fleetOf are three replicas.
func fleetOf(t testing.TB, addr string) []*replica {
	t.Helper()
	var fleet []*replica
	for range 3 {
		fleet = append(fleet, join(t, patientOptions(addr), 3, patient).run(t))
	}
	return fleet
}

// load has four clients of every replica ask so often. actual is what a request uses; it may be above its estimate. It
// returns what was used.
func load(t *testing.T, fleet []*replica, a Request, times int, actual func() int) (used int64) {
	t.Helper()
	var (
		sum     atomic.Int64
		clients sync.WaitGroup
	)
	for _, r := range fleet {
		for range 4 {
			clients.Go(func() {
				for range times {
					g, err := r.Reserve(t.Context(), a)
					if err != nil {
						if !errors.Is(err, ErrExhausted) {
							t.Errorf("a request failed: %v", err)
						}
						<-time.After(time.Millisecond)
						continue
					}
					n := actual()
					<-time.After(time.Duration(rand.IntN(3)) * time.Millisecond)
					g.Settle(n, 0)
					sum.Add(int64(n))
				}
			})
		}
	}
	clients.Wait()
	return sum.Load()
}

// storedOf is what Redis has of the month of a tenant: the sum of its fields.
func storedOf(t testing.TB, c redis.UniversalClient, name string) (p part) {
	t.Helper()
	fields, err := c.HGetAll(context.WithoutCancel(t.Context()), keyTenant+name).Result()
	if err != nil {
		t.Fatal(err)
	}
	begin, _ := identity.Month.Window(time.Now())
	for field, v := range fields {
		n, err := decode(v)
		if field == "levels" || err != nil || n[12] != begin.Unix() {
			continue
		}
		p.settled, p.reserved = p.settled.plus(cost{ofTokens: n[13], ofNanos: n[14]}), p.reserved.plus(cost{ofTokens: n[15], ofNanos: n[16]})
	}
	return p
}

func TestThreeReplicasTogetherNeverSpendMoreThanTheBudget(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	fleet := fleetOf(t, s.Addr)
	b := tokensPer(2000, identity.Month)
	a := Request{Tenant: "acme", Budgets: []identity.Budget{b}, Tokens: 10}
	used := load(t, fleet, a, 80, func() int { return 1 + rand.IntN(10) })
	if used > 2000 || used < 1900 {
		t.Errorf("%d tokens were used of 2000", used)
	}
	redistest.Within(t, 20*time.Second, fmt.Sprintf("Redis has the %d that were used", used), func() bool {
		p := storedOf(t, s.Client, "acme")
		return p.settled[ofTokens] == used && p.reserved == cost{}
	})
	for _, r := range fleet {
		r.stop()
	}
}

func TestWithoutRedisAShareContinuesAndDenyRefuses(t *testing.T) {
	t.Parallel()
	var fleet []*replica
	for range 3 {
		fleet = append(fleet, join(t, gone(), 3).run(t))
	}
	share := Request{Tenant: "acme", Budgets: []identity.Budget{tokensPer(90, identity.Month)}, Tokens: 10}
	used := 0
	for range 10 {
		for _, r := range fleet {
			if r.settle(t, share, 10) {
				used += 10
			}
		}
	}
	if used != 90 {
		t.Errorf("%d tokens of 90 with shares", used)
	}
	deny := Request{Tenant: "beta", Budgets: []identity.Budget{tokensPer(90, identity.Hour), denied(tokensPer(90, identity.Month))}, Tokens: 10}
	for _, r := range fleet {
		if e := r.exhausted(t, deny); !e.Uncounted || e.Budget.Per != identity.Month {
			t.Errorf("%+v", e)
		}
		if st := r.used(t, "beta", deny.Budgets[0]); st.Used != 0 || st.Reserved != 0 || st.Shared {
			t.Errorf("a refused request counts: %+v", st)
		}
	}
}

func TestWhatADeadReplicaHadReservedIsFreeAgainAndWhatItSettledIsNot(t *testing.T) {
	bubble(t, 2, func(t *testing.T, fleet []*replica, _ *miniredis.Miniredis, _ *redistest.Network) {
		b := tokensPer(100, identity.Day)
		a := Request{Tenant: "acme", Budgets: []identity.Budget{b}, Tokens: 40}
		dead, alive := fleet[0], fleet[1]
		dead.enter(t, a).Settle(30, 0)
		dead.enter(t, a)
		time.Sleep(time.Second)
		if e := alive.exhausted(t, a); e.Left != 30 {
			t.Errorf("%+v", e)
		}
		time.Sleep(time.Minute) // as long as it lives it says again what it has reserved
		alive.exhausted(t, a)
		dead.stop()
		time.Sleep(31 * time.Second)
		alive.enter(t, a).Settle(40, 0)
		if st := alive.used(t, "acme", b); st.Used != 70 || st.Reserved != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestARedisThatHasLostItsDataIsNotBelievedBeforeReplicasHaveFilledIt(t *testing.T) {
	bubble(t, 2, func(t *testing.T, fleet []*replica, m *miniredis.Miniredis, _ *redistest.Network) {
		b := tokensPer(100, identity.Day)
		a := Request{Tenant: "acme", Budgets: []identity.Budget{b}, Tokens: 20}
		deny := Request{Tenant: "acme", Budgets: []identity.Budget{denied(b)}, Tokens: 20}
		for range 3 {
			fleet[0].settle(t, a, 20)
		}
		fleet[1].enter(t, a).Settle(0, 0)
		m.FlushAll()
		fleet[1].Lost() // as the exchange says
		if e := fleet[1].exhausted(t, deny); !e.Uncounted {
			t.Errorf("%+v", e)
		}
		if got := fleet[1].budgetResults(resultRefilling); got != 1 {
			t.Errorf("%d requests found that data were lost", got)
		}
		if !fleet[1].settle(t, a, 20) { // half of the 40 that were left
			t.Error("its share is refused")
		}
		fleet[1].exhausted(t, a)
		fleet[0].Lost() // as the exchange says
		time.Sleep(refillTime + time.Second)
		if !fleet[1].settle(t, deny, 20) {
			t.Error("it is refused after Redis is full again")
		}
		for _, r := range fleet {
			if e := r.exhausted(t, a); e.Left != 0 || e.Uncounted {
				t.Errorf("%+v", e)
			}
		}
	})
}

func TestAReplyThatComesLateIsCountedOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr, 0)
	r := join(t, redistest.OnRequests(p.Addr), 1).run(t)
	b := tokensPer(100, identity.Month)
	a := Request{Tenant: "acme", Budgets: []identity.Budget{b}, Tokens: 10}
	r.settle(t, a, 10)
	p.Delay(30 * time.Millisecond) // each way: later than the budget of time
	for range 3 {
		r.settle(t, a, 10)
	}
	p.Delay(0)
	redistest.Eventually(t, "all are settled", func() bool { return storedOf(t, s.Client, "acme").settled[ofTokens] == 40 })
	r.stop()
	if got := storedOf(t, s.Client, "acme"); got.settled[ofTokens] != 40 || got.reserved[ofTokens] != 0 {
		t.Errorf("%+v", got)
	}
}

func TestManyDeadProcessesAreFoldedIntoOneField(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fleet []*replica, m *miniredis.Miniredis, _ *redistest.Network) {
		const key, maxFields = keyTenant + "acme", 64
		b := tokensPer(1_000_000, identity.Day)
		begin, _ := b.Per.Window(time.Now())
		die := func(at time.Time) {
			for i := range 200 {
				m.HSet(key, fmt.Sprint("dead", i), fmt.Sprintf("%d 1 0 0 0 0 0 %d 10 5 7 7 0 0 0 0 0", at.UnixMilli(), begin.Unix()))
			}
		}
		die(time.Now())
		a := Request{Tenant: "acme", Budgets: []identity.Budget{b}, Tokens: 10}
		r := fleet[0]
		r.settle(t, a, 10)
		if got := r.used(t, "acme", b); got.Used != 2010 || got.Reserved != 1400 {
			t.Errorf("%+v", got)
		}
		die(time.Now().Add(-time.Hour - time.Second))
		for range 300 {
			r.settle(t, a, 10)
		}
		time.Sleep(time.Second)
		if got := r.used(t, "acme", b); got.Used != 5010 || got.Reserved != 0 {
			t.Errorf("%+v", got)
		}
		fields, err := m.HKeys(key)
		if err != nil || len(fields) > maxFields+1 {
			t.Errorf("%d fields, %v", len(fields), err)
		}
	})
}

func TestAKeyOfAnotherTypeRefusesNobodyWithAShare(t *testing.T) {
	s := redistest.Start(t)
	r := join(t, patientOptions(s.Addr), 2, patient).run(t)
	b := tokensPer(100, identity.Month)
	s.Do("SET", keyTenant+"acme", "x")
	a := Request{Tenant: "acme", Budgets: []identity.Budget{b}, Tokens: 50}
	if !r.settle(t, a, 50) || r.settle(t, a, 50) {
		t.Error("want one half of the budget")
	}
	if r.budgetResults(calls.ResultWrong) != 2 || r.asker.Away() {
		t.Errorf("%d wrong answers, away %t", r.budgetResults(calls.ResultWrong), r.asker.Away())
	}
	s.Do("DEL", keyTenant+"acme")
	redistest.Eventually(t, "the window is sent again", func() bool {
		return r.used(t, "acme", b).Used == 50 && storedOf(t, s.Client, "acme").settled[ofTokens] == 50
	})
}

func TestTheStatesOfManyTenantsAreReadTogetherAndChangeNothing(t *testing.T) {
	s := redistest.Start(t, "--maxclients", "1000")
	fleet := fleetOf(t, s.Addr)
	b, hour := tokensPer(100, identity.Month), identity.Budget{NanoUSD: 5e9, Per: identity.Hour}
	var list []BudgetQuery
	for i := range 2*flushBatch + 5 {
		q := BudgetQuery{Tenant: fmt.Sprint("t", i), Budgets: []identity.Budget{b, hour}}
		if i%3 == 1 {
			q.Budgets = nil
		}
		list = append(list, q)
	}
	g := fleet[0].enter(t, Request{Tenant: "t0", Budgets: list[0].Budgets, Tokens: 7, USD: 1})
	fleet[1].settle(t, Request{Tenant: "t515", Budgets: list[515].Budgets, Tokens: 9}, 9)
	keys := s.Do("DBSIZE").(int64)
	for _, r := range fleet {
		var got [][]BudgetState
		redistest.Eventually(t, "Redis answers in time", func() bool { // which a busy machine may not
			got = r.States(t.Context(), list)
			return got[0][0].Shared && got[513][1].Shared
		})
		if len(got) != len(list) || len(got[1]) != 0 || len(got[2]) != 2 {
			t.Fatalf("%d states", len(got))
		}
		if first, last := got[0], got[515]; first[0].Reserved != 7 || first[1].Reserved != 1e9 || last[0].Used+last[0].Reserved != 9 {
			t.Errorf("%+v, %+v", first, last)
		}
	}
	if after := s.Do("DBSIZE").(int64); after != keys {
		t.Errorf("%d keys, then %d", keys, after)
	}
	g.Settle(0, 0)
	s.Kill()
	if got := fleet[1].States(t.Context(), list[:3]); got[0][0].Shared || len(got[2]) != 2 {
		t.Errorf("without Redis: %+v", got)
	}
}
