package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/connect"
	"github.com/foregate/foregate/internal/redistest"
)

// eachTopology runs a test with a store at one server, behind Sentinels and at a cluster.
func eachTopology(t *testing.T, test func(t *testing.T, s *Store, masters []*redistest.Server)) {
	t.Helper()
	redistest.EachTopology(t, func(t *testing.T, where connect.Options, masters []*redistest.Server) {
		test(t, storeOn(t, where, patient), masters)
	})
}

// storeOn is a store at one topology.
func storeOn(t *testing.T, where connect.Options, budget func() time.Duration) *Store {
	t.Helper()
	o := connect.OnRequests(connect.Background(where))
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = patient(), patient(), patient(), patient()
	c := connect.New(o)
	t.Cleanup(func() { _ = c.Close() })
	return NewStore(Options{Redis: c, Budget: budget})
}

// lookAtOnce looks for many keys at the same time and counts what it finds.
func lookAtOnce(t *testing.T, s *Store, keys int, lease func(Key) *Lease) map[Found]int {
	t.Helper()
	var mu sync.Mutex
	found := map[Found]int{}
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			k := numbered(uint64(i))
			e, f := s.Look(t.Context(), k, lease(k))
			if e != nil && e.Prompt != i {
				t.Errorf("key %d has the answer of %d", i, e.Prompt)
			}
			mu.Lock()
			found[f]++
			mu.Unlock()
		})
	}
	all.Wait()
	return found
}

func noLease(Key) *Lease { return nil }

// keepMany puts an answer for each of these keys, until Redis has all: a busy machine may drop some.
func keepMany(t *testing.T, s *Store, keys int) {
	t.Helper()
	redistest.Within(t, 20*time.Second, "all answers are kept", func() bool {
		putMany(s, keys)
		return lookAtOnce(t, s, keys, noLease)[FoundHit] == keys
	})
}

// putMany puts them once, and waits until each is kept or dropped.
func putMany(s *Store, keys int) {
	var told sync.WaitGroup
	for i := range keys {
		told.Add(1)
		s.Put(numbered(uint64(i)), &Entry{Prompt: i, Answer: []byte("answer")}, time.Hour, told.Done)
	}
	told.Wait()
}

func TestLooksThatShareRoundTripsGetTheirOwnAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	eachTopology(t, func(t *testing.T, s *Store, masters []*redistest.Server) {
		running(t, s)
		const keys = 300
		if found := lookAtOnce(t, s, keys, leaseOf); found[FoundLead] != keys {
			t.Errorf("before: %v", found)
		}
		if found := lookAtOnce(t, s, keys, leaseOf); found[FoundFollow]+found[FoundLead] != keys { // a lease may end on a busy machine
			t.Errorf("while others lead: %v", found)
		}
		keepMany(t, s, keys)
		for range 3 {
			for _, m := range masters {
				m.Do("SCRIPT", "FLUSH")
			}
			if found := lookAtOnce(t, s, keys, noLease); found[FoundHit] != keys {
				t.Errorf("after the scripts were flushed: %v", found)
			}
		}
	})
}

func TestAValueOfAnotherTypeAmongOthersIsOneMiss(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	eachTopology(t, func(t *testing.T, s *Store, _ []*redistest.Server) {
		running(t, s)
		const keys = 100
		keepMany(t, s, keys)
		ctx := t.Context()
		must(t, s.redis.Set(ctx, numbered(3).Name(), "not ours", time.Hour).Err())
		must(t, s.redis.Unlink(ctx, numbered(4).Name()).Err())
		must(t, s.redis.RPush(ctx, numbered(4).Name(), "x").Err())
		if found := lookAtOnce(t, s, keys, leaseOf); found[FoundHit] != keys-2 || found[FoundLead] != 2 {
			t.Errorf("%v", found)
		}
	})
}

// storeOnCluster returns a cluster and a running store on it.
func storeOnCluster(t *testing.T, budget func() time.Duration) (*redistest.Cluster, *Store) {
	t.Helper()
	c := redistest.StartCluster(t)
	o := connect.Options{Network: "tcp", Cluster: true}
	for _, n := range c.Nodes {
		o.Addrs = append(o.Addrs, n.Addr)
	}
	s := storeOn(t, o, budget)
	running(t, s)
	return c, s
}

// TestAFrozenNodeHoldsUpNoOtherNodesLooks has the budget that replicas have, except for a machine that is busy.
func TestAFrozenNodeHoldsUpNoOtherNodesLooks(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	c, s := storeOnCluster(t, func() time.Duration { return time.Second })
	redistest.Within(t, 10*time.Second, "all nodes are asked", func() bool { return lookAtOnce(t, s, 50, noLease)[FoundNone] == 50 })
	_, frozen, _ := c.Of(numbered(0).Name())
	var well []Key
	for i := uint64(1); len(well) < 50; i++ {
		if _, has, _ := c.Of(numbered(i).Name()); has != frozen {
			well = append(well, numbered(i))
		}
	}
	frozen.Freeze()
	defer frozen.Thaw()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			s.Look(ctx, numbered(0), nil)
			s.asker.Probed(true) // it is asked again and again
		}
	})
	redistest.Within(t, 30*time.Second, "all looks at the others are answered", func() bool {
		var none atomic.Int32
		var looks sync.WaitGroup
		for _, k := range well {
			looks.Go(func() {
				if _, f := s.Look(ctx, k, nil); f == FoundNone {
					none.Add(1)
				}
			})
		}
		looks.Wait()
		return int(none.Load()) == len(well)
	})
	cancel()
	all.Wait()
}

func TestLooksFollowASlotThatMoves(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	c, s := storeOnCluster(t, patient)
	const keys = 100
	redistest.Within(t, 10*time.Second, "all nodes are asked", func() bool { return lookAtOnce(t, s, keys, noLease)[FoundNone] == keys })
	slot, has, others := c.Of(numbered(7).Name())
	id := others[0].Do("CLUSTER", "MYID")
	for _, n := range []*redistest.Server{others[0], has, others[1]} {
		n.Do("CLUSTER", "SETSLOT", slot, "NODE", id)
	}
	if found := lookAtOnce(t, s, keys, leaseOf); found[FoundLead] != keys {
		t.Errorf("after the move: %v", found)
	}
	if n := others[0].Do("CLUSTER", "COUNTKEYSINSLOT", slot); n != int64(1) {
		t.Errorf("the node that has the slot now has %v leases", n)
	}
}

// panicsOnce is a client that panics at the replies of a pipeline or of a script, once.
type panicsOnce struct{ done *atomic.Bool }

func (p panicsOnce) DialHook(next redis.DialHook) redis.DialHook { return next }
func (p panicsOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "evalsha" && !p.done.Swap(true) {
			panic("at a reply")
		}
		return err
	}
}
func (p panicsOnce) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if !p.done.Swap(true) {
			panic("at a reply")
		}
		return err
	}
}

func TestAPanicOfTheClientIsAnErrorOfThoseWhoShareTheRoundTrip(t *testing.T) {
	r := redistest.Start(t)
	s := storeAt(t, r.Addr)
	must(t, s.load(t.Context()))
	p := panicsOnce{new(atomic.Bool)}
	s.redis.AddHook(p)
	wantFound(t, s, keyNo(1), nil, FoundError)
	wantFound(t, s, keyNo(1), nil, FoundNone)
	running(t, s)
	p.done.Store(false)
	putMany(s, 10) // those who wait for it are told, whether it was written or not
	p.done.Store(true)
	keepMany(t, s, 10)
}
