package ledger

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/internal/redistest"
)

// slow is far more than the budget and far less than the 100 ms after which the client gives
// up. A busy machine may stall some of 200 requests for longer.
const (
	slow    = 60 * time.Millisecond
	stalled = 20
)

func TestThreeReplicasAtARealRedisAdmitOneLimit(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const c = 6000 // 100 a second
	var let atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for range 3 {
		r := join(t, patientOptions(s.Addr), 3, patient).run(t) // who is late is counted twice
		for range 4 {
			wg.Go(func() {
				for time.Since(begun) < 2*time.Second {
					if r.ask(t, Request{Tenant: "acme", Limit: Limit{RPM: c}}) {
						let.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	const burst = c / 50
	least, maxSlots := c*(2*time.Second).Minutes()+burst, c*time.Since(begun).Minutes()+burst
	if got := float64(let.Load()); got < 0.85*least || got > 1.02*maxSlots { // a machine that stalls lets some of it pass unused
		t.Errorf("%v let in, want %v to %v", got, least, maxSlots)
	}
}

// TestNoRequestFailsOrWaitsBecauseOfRedis breaks a real Redis in every way, and mends it.
func TestNoRequestFailsOrWaitsBecauseOfRedis(t *testing.T) {
	configure := func(name, value string) func(*redistest.Server, *redis.Client) error {
		return func(_ *redistest.Server, c *redis.Client) error {
			return c.ConfigSet(context.Background(), name, value).Err()
		}
	}
	key := keyTenant + "acme"
	for _, fault := range []struct {
		name        string
		harm, mend  func(*redistest.Server, *redis.Client) error
		result      string // what is counted
		waits, away bool   // requests wait for the budget until, after five, Redis is left alone
	}{
		{"killed", func(s *redistest.Server, _ *redis.Client) error { s.Kill(); return nil }, func(s *redistest.Server, _ *redis.Client) error { s.Restart(); return nil }, calls.ResultError, false, true},
		{"frozen", func(s *redistest.Server, _ *redis.Client) error { s.Freeze(); return nil },
			func(s *redistest.Server, _ *redis.Client) error { s.Thaw(); return nil }, calls.ResultLate, true, true},
		{"full", configure("maxmemory", "1"), configure("maxmemory", "0"), calls.ResultError, false, true},
		{"read-only", func(_ *redistest.Server, c *redis.Client) error {
			return c.ReplicaOf(context.Background(), "127.0.0.1", "1").Err()
		},
			func(_ *redistest.Server, c *redis.Client) error {
				return c.ReplicaOf(context.Background(), "NO", "ONE").Err()
			}, calls.ResultError, false, true},
		{"another type", func(_ *redistest.Server, c *redis.Client) error {
			return c.Set(context.Background(), key, "hello", 0).Err()
		},
			func(_ *redistest.Server, c *redis.Client) error { return c.Del(context.Background(), key).Err() }, calls.ResultWrong, false, false},
		{"scripts flushed", func(_ *redistest.Server, c *redis.Client) error { return c.ScriptFlush(context.Background()).Err() },
			func(*redistest.Server, *redis.Client) error { return nil }, calls.ResultShared, false, false},
		{"emptied", func(_ *redistest.Server, c *redis.Client) error { return c.FlushAll(context.Background()).Err() },
			func(*redistest.Server, *redis.Client) error { return nil }, calls.ResultShared, false, false},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			raw := s.Client
			wait := patient // nothing is late but what the machine delays
			if fault.waits {
				wait = func(*Options) {}
			}
			r := join(t, redistest.OnRequests(s.Addr), 1, wait).run(t)
			a := Request{Tenant: "acme", Limit: Limit{RPM: 600_000}}
			redistest.Within(t, 5*time.Second, "requests are counted in Redis", func() bool { r.ask(t, a); return r.limitResults(calls.ResultShared) > 0 })
			must := func(what func(*redistest.Server, *redis.Client) error) {
				t.Helper()
				if err := what(s, raw); err != nil {
					t.Fatal(err)
				}
			}
			must(fault.harm)
			before, let := r.limitResults(fault.result), 0
			var took []time.Duration
			for range 200 {
				begun := time.Now()
				if r.ask(t, a) {
					let++
				}
				took = append(took, time.Since(begun))
				time.Sleep(time.Millisecond)
			}
			slices.Sort(took)
			if took[len(took)-1-stalled] > slow || let < 150 {
				t.Errorf("%d of 200 let in, the slowest after %v", let, took[190:])
			}
			t.Logf("%s: the slowest took %v", fault.name, took[len(took)-1])
			if got := r.limitResults(fault.result) - before; got == 0 || fault.away && got > 2*calls.MaxFailures {
				t.Errorf("%d counted as %s", got, fault.result)
			}
			if got := r.limitResults(calls.ResultSkipped); fault.away != (got > 0) {
				t.Errorf("%d did not ask", got)
			}
			must(fault.mend)
			shared := r.limitResults(calls.ResultShared)
			redistest.Within(t, 10*time.Second, "requests are counted in Redis again", func() bool { r.ask(t, a); return r.limitResults(calls.ResultShared) > shared })
		})
	}
}
