package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

// peer is one of several replicas: generations, and a store that they look in, each with a client of its own.
type peer struct {
	*Generations
	store  *Store
	budget atomic.Int64 // of a look, in ns
	leases *redis.Client
	looks  *redis.Client
	stop   func() // ends the generations' Run; the second time it does nothing
	life   context.Context
	die    context.CancelFunc
}

// leaseOptions are those of cmd/foregate's client for leases.
func leaseOptions(addr string) *redis.Options {
	o := redistest.OnRequests(addr)
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = 250*time.Millisecond, 250*time.Millisecond, 50*time.Millisecond
	o.PoolSize, o.MaxActiveConns = 8, 16
	return o
}

// lookTime is a budget that a busy machine keeps, and that ends where Redis is frozen.
const lookTime = 2 * time.Second

// peerAt runs a replica until the test ends.
func peerAt(t testing.TB, addr string) *peer {
	t.Helper()
	o := redistest.OnRequests(addr)
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = lookTime, lookTime, lookTime
	p := &peer{leases: redistest.Client(t, leaseOptions(addr)), looks: redistest.Client(t, o)}
	p.budget.Store(int64(lookTime))
	sealer, err := NewSealer()
	must(t, err)
	p.Generations = NewGenerations(GenerationOptions{Redis: p.leases, Sealer: sealer, MaxEntry: func() int { return 1 << 20 }})
	p.store = NewStore(Options{
		Redis: p.looks, Sealer: sealer, Budget: func() time.Duration { return time.Duration(p.budget.Load()) },
		LocalBytes: -1, Registerer: prometheus.NewRegistry(),
	})
	running(t, p.store)
	p.life, p.die = context.WithCancel(context.Background())
	t.Cleanup(p.die)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	p.stop = func() { cancel(); work.Wait() }
	t.Cleanup(func() {
		defer p.stop()
		redistest.Within(t, 5*time.Second, "answers are kept and leases given back", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.leasesHeld) == 0
		})
		p.stop()
		allGone(t, p.Generations)
		if p.tails > 0 {
			t.Errorf("%d tails are left behind", p.tails)
		}
	})
	redistest.Within(t, 5*time.Second, "the replica runs", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.closed
	})
	return p
}

// kill ends what a replica says to Redis, as if its process had died: without a last word.
func (p *peer) kill() {
	_ = p.leases.Close()
	_ = p.looks.Close()
	p.die()
}

// turn is what a request does whose turn it is to lead: it looks, and follows or leads. The leader is nil where
// it is over.
func (p *peer) turn(ctx context.Context, n Event, id GenerationID) (lead *Leader, lease *Lease, found Found) {
	lease = n.Leader.Lease()
	e, found := p.store.Look(ctx, id.Key, lease)
	switch {
	case e != nil:
		n.Leader.Complete(e, nil)
		return nil, nil, found
	case lease.Holder != "":
		if n.Leader.Follow() {
			return nil, lease, found
		}
		lease = nil
	}
	return n.Leader, lease, found
}

// leads has a replica lead, under a lease.
func (p *peer) leads(t testing.TB, id GenerationID) (*Subscriber, *Leader) {
	t.Helper()
	s := p.Join(id)
	lead, _, found := p.turn(t.Context(), want(t, s, EventLead), id)
	if found != FoundLead {
		t.Fatalf("found %s, want to lead", found)
	}
	lead.Begin(func(error) {})
	return s, lead
}

// followsAnother has a replica follow another.
func (p *peer) followsAnother(t testing.TB, id GenerationID) (*Subscriber, *Lease) {
	t.Helper()
	s := p.Join(id)
	lead, lease, found := p.turn(t.Context(), want(t, s, EventLead), id)
	if found != FoundFollow || lead != nil {
		t.Fatalf("found %s, want to follow", found)
	}
	return s, lease
}

// kept lands an answer that is kept, and waits until it is.
func (p *peer) kept(t testing.TB, lead *Leader, id GenerationID, e *Entry) {
	t.Helper()
	done := make(chan struct{})
	lead.Complete(e, func(then func()) {
		p.store.Put(id.Key, e, time.Hour, func() { then(); close(done) })
	})
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it is not told that the answer is kept")
	}
}

// isFollowed waits until a leader knows that it is followed.
func isFollowed(t testing.TB, s *Subscriber) {
	t.Helper()
	redistest.Within(t, 10*time.Second, "the leader knows that it is followed", s.generation.isWanted)
}

// guest is a request that is served as gateways serve one.
type guest struct {
	told  []byte
	entry *Entry
	made  int // generations that it began
	err   error
	alone bool
}

// serve answers one request, while the process lives. making makes the answer; false is that it died.
func (p *peer) serve(ctx context.Context, s *Subscriber, id GenerationID, making func(lead *Leader) bool) (g guest) {
	defer s.Depart()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	for {
		n, err := s.Next(ctx, time.Time{})
		if err != nil {
			g.err = err
			return g
		}
		switch n.Kind {
		case EventLead:
			lead, _, _ := p.turn(ctx, n, id)
			if lead == nil {
				continue
			}
			g.made++
			if !making(lead) {
				return g
			}
		case EventText:
			g.told = append(g.told, n.Text...)
		case EventComplete:
			g.entry = n.Entry
			return g
		case EventFailed:
			g.err = n.Err
			return g
		case EventAlone:
			g.alone = true
			return g
		}
	}
}

// gives is a generation that says all at once, and whose answer is kept.
func (p *peer) gives(text string, id GenerationID) func(*Leader) bool {
	return func(lead *Leader) bool {
		lead.Begin(func(error) {})
		lead.Append([]byte(text))
		e := wholeOf(text)
		lead.Complete(e, func(then func()) { p.store.Put(id.Key, e, time.Hour, then) })
		return true
	}
}

// wantsWhole fails the test unless a guest has the answer and was told nothing else.
func (g guest) wantsWhole(t testing.TB, text string) {
	t.Helper()
	if g.err != nil || g.entry == nil || string(g.entry.Answer) != text {
		t.Errorf("error %v, entry %v; want the whole answer", g.err, g.entry)
	}
	if len(g.told) > len(text) || string(g.told) != text[:len(g.told)] {
		t.Errorf("told %q", g.told)
	}
}

// atOnce runs a test for each name, several at the same time: they wait more than they work.
func atOnce(t *testing.T, names []string, run func(t *testing.T, i int)) {
	t.Helper()
	var all sync.WaitGroup
	several := make(chan struct{}, 6)
	for i, name := range names {
		several <- struct{}{}
		all.Go(func() {
			defer func() { <-several }()
			t.Run(name, func(t *testing.T) { run(t, i) })
		})
	}
	all.Wait()
}
