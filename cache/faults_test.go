package cache

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/lookup"
)

func TestALeaseThatWasTakenTooLateIsGivenBack(t *testing.T) {
	s := serve(t)
	p := lateBy(t, s.addr, 4*defaultBudget)
	o := requestOptions(p.addr)
	o.ReadTimeout = time.Second
	r := NewStore(Options{Redis: clientOf(t, o)})
	raw := s.raw()
	must(t, r.load(t.Context()))
	must(t, leaseScripts(raw).Load(t.Context(), keyProbe))
	lease := leaseOf(keyNo(1))
	wantFound(t, r, keyNo(1), lease, FoundLate)
	r.asker.Rest(5 * time.Second)
	if held, err := raw.Get(t.Context(), lease.Name).Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("it is held by %q, %v", held, err)
	}
}

func TestAnAnswerThatCameTooLateIsServedFromItsCopy(t *testing.T) {
	s := serve(t)
	k := keyNo(1)
	w := storeAt(t, s.addr)
	running(t, w)
	keep(t, w, k, answerOf(k, 100))
	o := requestOptions(lateBy(t, s.addr, 4*defaultBudget).addr)
	o.ReadTimeout = time.Second
	r := NewStore(Options{Redis: clientOf(t, o)})
	wantFound(t, r, k, nil, FoundLate)
	within(t, 5*time.Second, "there is a copy", func() bool { _, ok := r.Local(k); return ok })
}

// TestARedisThatIsALittleLateSeesFewNewConnections has every look asked, however late all are. The connections of a
// replica under load are there before, as many as a machine that stalls might want at once.
func TestARedisThatIsALittleLateSeesFewNewConnections(t *testing.T) {
	const looks = 1000
	s := serve(t)
	p := lateBy(t, s.addr, defaultBudget*3/2)
	o := requestOptions(p.addr)
	o.ReadTimeout = time.Second // which a busy machine keeps
	r := NewStore(Options{Redis: clientOf(t, o)})
	must(t, r.load(t.Context())) // as Run does
	var lates, others int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range o.PoolSize {
		all.Go(func() { r.Look(t.Context(), keyNo(1), nil) })
	}
	all.Wait()
	within(t, 5*time.Second, "all are over", func() bool { return r.asker.UnderWay() == 0 })
	before := p.connections.Load()
	const workers = 4
	for range workers {
		all.Go(func() {
			for range looks / workers {
				r.asker.Tried(true)
				_, found := r.Look(t.Context(), keyNo(1), nil)
				mu.Lock()
				if found == FoundLate {
					lates++
				} else {
					others++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if lates < looks*9/10 {
		t.Errorf("only %d were late, %d were not", lates, others)
	}
	if got := p.connections.Load() - before; got > 20 {
		t.Errorf("%d new connections for %d looks", got, looks)
	}
	t.Logf("%d connections, and %d new ones for %d looks, %d of them late", before, p.connections.Load()-before, looks, lates)
}

func TestAFrozenRedisCostsAFewLooksTheirBudgetAndThenNothing(t *testing.T) {
	s := serve(t)
	r := NewStore(Options{Redis: clientOf(t, requestOptions(s.addr))})
	running(t, r)
	k := keyNo(1)
	within(t, 5*time.Second, "it is asked", func() bool { _, f := r.Look(t.Context(), k, nil); return f == FoundNone })
	s.signal(syscall.SIGSTOP)
	found := map[Found]int{}
	var waited time.Duration
	for range 1000 {
		began := time.Now()
		_, f := r.Look(t.Context(), k, nil)
		found[f]++
		waited += time.Since(began)
	}
	if found[FoundLate]+found[FoundError] > 2*lookup.FailuresInARow || found[FoundAway] < 900 {
		t.Errorf("%v", found)
	}
	if waited > time.Second { // five budgets, and a machine that stalls
		t.Errorf("1,000 looks waited for %v", waited)
	}
	t.Logf("%v in %v", found, waited)
	s.Put(t, r, k) // dropped, at once
	s.signal(syscall.SIGCONT)
	within(t, 10*time.Second, "it is asked again", func() bool { _, f := r.Look(t.Context(), k, nil); return f == FoundNone })
	keep(t, r, k, answerOf(k, 10))
	wantFound(t, r, k, nil, FoundHit)
}

// Put is dropped while Redis is away.
func (s *server) Put(t *testing.T, r *Store, k Key) {
	t.Helper()
	before := r.metrics.dropped.all()[droppedAway]
	told := false
	r.Put(k, answerOf(k, 10), time.Hour, func() { told = true })
	if got := r.metrics.dropped.all()[droppedAway] - before; got != 1 || !told {
		t.Errorf("%d dropped, told %t", got, told)
	}
}

func TestARedisThatDiesIsLeftAloneUntilItIsBack(t *testing.T) {
	s := serve(t)
	r := NewStore(Options{Redis: clientOf(t, requestOptions(s.addr))})
	running(t, r)
	k := keyNo(1)
	within(t, 5*time.Second, "it is asked", func() bool { _, f := r.Look(t.Context(), k, nil); return f == FoundNone })
	s.stop()
	within(t, 5*time.Second, "it is left alone", func() bool { _, f := r.Look(t.Context(), k, nil); return f == FoundAway })
	if !r.Stats().Away {
		t.Error("nobody is told")
	}
	s.start()
	within(t, 10*time.Second, "it is asked again", func() bool { _, f := r.Look(t.Context(), k, nil); return f == FoundNone })
}

func TestAReplicaOfRedisThatMayNotBeWrittenIsAnErrorAndNoLoop(t *testing.T) {
	s := serve(t)
	r := storeAt(t, s.addr)
	must(t, r.load(t.Context()))
	must(t, s.raw().ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	wantFound(t, r, keyNo(1), leaseOf(keyNo(1)), FoundError) // so that the client looks for the master
}

// silent is a node that takes everything and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				_, _ = io.Copy(io.Discard, c) // until the client ends it
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() { _ = ln.Close(); all.Wait() })
	return ln.Addr().String()
}

func TestANodeThatForgotTheScriptIsGivenItWhileAnotherIsFrozen(t *testing.T) {
	s, frozen := serve(t), silent(t)
	o := requestOptions(s.addr)
	c := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{Start: 0, End: 16382, Nodes: []redis.ClusterNode{{Addr: s.addr}}},
				{Start: 16383, End: 16383, Nodes: []redis.ClusterNode{{Addr: frozen}}},
			}, nil
		},
		ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, DisableRoutingPolicies: true,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
	})
	t.Cleanup(func() { _ = c.Close() })
	r := NewStore(Options{Redis: c, Budget: patient})
	for range 2 { // the second time it had them all
		must(t, s.raw().ScriptFlush(t.Context()).Err())
		within(t, 5*time.Second, "it is asked", func() bool { _, f := r.Look(t.Context(), keyNo(1), nil); return f == FoundNone })
	}
	lease := leaseOf(keyNo(1))
	wantFound(t, r, keyNo(1), lease, FoundLead)
	wantFound(t, r, keyNo(1), leaseOf(keyNo(1)), FoundFollow)
}
