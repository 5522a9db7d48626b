package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/pool"
)

// counter is a backend with so many places. It is safe for concurrent use.
type counter struct {
	mu     sync.Mutex
	places int
}

func (c *counter) try(l pool.Admission) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.places <= 0 && l.MaxUsage > 0 {
		return &pool.FullError{Pool: "p", Limit: l.MaxUsage, Usage: 0.5, Peak: 1.1}
	}
	c.places--
	return nil
}

func (c *counter) free(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places += n
}

// waiter is one that asks c for a place.
func (c *counter) waiter(class identity.Priority, tenant string) *Ticket {
	return &Ticket{Route: "r", Class: class, Tenant: tenant, Tokens: 100, Config: defaultConfig(), Try: c.try}
}

// result is what Enter returned.
type result struct {
	waited time.Duration
	err    error
}

// going enters in a goroutine of its own and returns when that waits or has ended.
func going(ctx context.Context, s *Queues, w *Ticket) <-chan result {
	came := make(chan result, 1)
	go func() {
		waited, err := s.Enter(ctx, "p", w)
		came <- result{waited, err}
	}()
	synctest.Wait()
	return came
}

// have is the result if there is one.
func have(came <-chan result) (r result, ok bool) {
	synctest.Wait()
	select {
	case r = <-came:
		return r, true
	default:
		return r, false
	}
}

// atRest fails unless nobody waits and nothing runs on.
func atRest(t *testing.T, s *Queues) {
	t.Helper()
	time.Sleep(pollInterval)
	synctest.Wait()
	for name, l := range *s.byPool.Load() {
		l.mu.Lock()
		if l.queue.Len() != 0 || l.inside.Load() != 0 || l.timer.Stop() || l.serveRequested.Load() {
			t.Errorf("pool %s: %d wait, or something runs on", name, l.queue.Len())
		}
		l.mu.Unlock()
	}
}

func TestAWakeLetsTheHeadIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := NewQueues([]string{"p"}, nil), counter{}
		first := going(t.Context(), s, c.waiter(normal, "t"))
		second := going(t.Context(), s, c.waiter(normal, "t"))
		time.Sleep(10 * time.Millisecond)
		c.free(1)
		s.Wake("another")
		if _, ok := have(first); ok {
			t.Fatal("woken for another pool")
		}
		s.Wake("p")
		if r, ok := have(first); !ok || r.err != nil || r.waited != 10*time.Millisecond {
			t.Errorf("got %+v, %v", r, ok)
		}
		if _, ok := have(second); ok {
			t.Error("two entered one place")
		}
		c.free(1)
		s.Wake("p")
		if r, ok := have(second); !ok || r.err != nil {
			t.Errorf("got %+v, %v", r, ok)
		}
		atRest(t, s)
	})
}

func TestWhoLeavesJustWhenItIsLetInIsToldOfItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := NewQueues([]string{"p"}, nil), counter{}
		for range 50 { // whichever of the two is heard first
			ctx, leave := context.WithCancel(t.Context())
			w := c.waiter(normal, "t")
			w.Try = func(l pool.Admission) error {
				err := c.try(l)
				if err == nil {
					leave()
				}
				return err
			}
			came := going(ctx, s, w)
			c.free(1)
			s.Wake("p")
			if r := <-came; r.err != nil || c.places != 0 {
				t.Fatalf("got %+v, and %d places are left", r, c.places)
			}
		}
		atRest(t, s)
	})
}

func TestRoomThatComesWhileSomebodyIsRefusedItIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := NewQueues([]string{"p"}, nil), counter{}
		w := c.waiter(normal, "t")
		first := true
		w.Try = func(l pool.Admission) error {
			err := c.try(l)
			if first {
				first = false
				c.free(1) // by another's end, just then
				s.Wake("p")
			}
			return err
		}
		if r := <-going(t.Context(), s, w); r.err != nil || r.waited != 0 {
			t.Errorf("got %+v", r)
		}
		atRest(t, s)
	})
}

func TestATryThatGivesItsPlaceBackDoesNotLockItselfOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewQueues([]string{"p"}, nil)
		p, err := pool.New(pool.Options{Name: "p", Backends: []string{"http://a:8000"}, OnCapacity: func() { s.Wake("p") }})
		if err != nil {
			t.Fatal(err)
		}
		broken := errors.New("its breaker has just opened")
		back := func(limit pool.Admission) error {
			var l pool.Lease
			if err := p.PickInto(&l, &pool.Demand{PromptTokens: 10, Admission: limit}); err != nil {
				return err
			}
			l.Done(0) // which wakes the line
			return broken
		}
		var c counter
		blocker := going(t.Context(), s, c.waiter(high, "t"))
		var all []<-chan result
		for i := range 20 {
			w := c.waiter(identity.Priority(i%3), fmt.Sprint(i))
			w.Try = back
			all = append(all, going(t.Context(), s, w))
		}
		c.free(1)
		s.Wake("p")
		if r, ok := have(blocker); !ok || r.err != nil {
			t.Errorf("got %+v, %v", r, ok)
		}
		for i, came := range all {
			if r, ok := have(came); !ok || r.err != broken {
				t.Errorf("%d: %+v, %v", i, r, ok)
			}
		}
		atRest(t, s)
	})
}

func TestWhatIsShedAndWhoWaitsIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s := NewQueues([]string{"p", "q"}, reg)
		usage := 0.9
		try := func(l pool.Admission) error {
			if l.MaxUsage > 0 && usage >= l.MaxUsage {
				return &pool.FullError{Pool: "p", Limit: l.MaxUsage, Usage: usage}
			}
			return nil
		}
		enter := func(class identity.Priority, now bool) error {
			_, err := s.Enter(t.Context(), "p", &Ticket{Route: "r", Class: class, Tenant: "t", Config: defaultConfig(), NoWait: now, Try: try})
			return err
		}
		scrape := func(metric string, want ...int) {
			t.Helper()
			text := ""
			for class := low; class <= high; class++ {
				text += fmt.Sprintf("%s{pool=\"p\",priority=%q} %d\n%s{pool=\"q\",priority=%q} 0\n", metric, class, want[class], metric, class)
			}
			help := map[string]string{"foregate_shedding": "1 while the priority class is shed at the pool for at least one route.", "foregate_queue_depth": "Requests waiting for capacity at a pool."}
			head := "# HELP " + metric + " " + help[metric] + "\n# TYPE " + metric + " gauge\n"
			if err := testutil.GatherAndCompare(reg, strings.NewReader(head+text), metric); err != nil {
				t.Error(err)
			}
		}
		shows := func(want ...int) { t.Helper(); scrape("foregate_shedding", want...) }
		shows(0, 0, 0)
		if err := enter(low, true); !errors.Is(err, pool.ErrFull) {
			t.Error(err)
		}
		shows(1, 0, 0)
		usage = 0.96
		if err := enter(normal, true); !errors.Is(err, pool.ErrFull) {
			t.Error(err)
		}
		shows(1, 1, 0)
		if got := fmt.Sprint(s.Shedding("p"), s.Shedding("q")); got != "[low normal] []" {
			t.Error(got)
		}
		usage = 0.5
		time.Sleep(minFlipInterval)
		if err := enter(low, false); err != nil {
			t.Error(err)
		}
		shows(0, 1, 0)
		if got := fmt.Sprint(s.Shedding("p")); got != "[normal]" {
			t.Error(got)
		}

		var c counter
		waits := going(t.Context(), s, c.waiter(high, "t"))
		scrape("foregate_queue_depth", 0, 0, 1)
		c.free(1)
		<-waits
		if n := testutil.CollectAndCount(s.waits); n != 1 {
			t.Errorf("%d histograms", n)
		}
		atRest(t, s)
	})
}

// panicOf is what a call panicked with, nil if it did not.
func panicOf(do func()) (what any) {
	defer func() { what = recover() }()
	do()
	return nil
}
