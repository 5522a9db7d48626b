package lookup

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// servers answer questions after a time; a question names its server. They note the sizes of round trips.
type servers struct {
	mu       sync.Mutex
	takes    map[int]time.Duration
	err      error
	batches  []int
	underWay atomic.Int32
	most     atomic.Int32
}

func newServers(takes time.Duration) *servers {
	return &servers{takes: map[int]time.Duration{0: takes}}
}

func (s *servers) set(server int, takes time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes[server], s.err = takes, err
}

// send answers each question with itself plus seven.
func (s *servers) send(_ context.Context, qs []*Question[int, int]) {
	s.mu.Lock()
	takes, err := s.takes[qs[0].Ask%10], s.err
	s.batches = append(s.batches, len(qs))
	s.mu.Unlock()
	s.most.Store(max(s.most.Load(), s.underWay.Add(1)))
	defer s.underWay.Add(-1)
	time.Sleep(takes)
	for _, q := range qs {
		q.Reply(q.Ask+7, err)
	}
}

func (s *servers) sizes() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

// batched are batches to these servers: of one, or in a lane for each.
func (s *servers) batched(o Options, lanes bool) *Batches[int, int] {
	b := BatchOptions[int, int]{Send: s.send}
	if lanes {
		b.Lane = func(ask *int) any { return *ask % 10 }
	}
	return NewBatches(newClient(o), b)
}

// tallies counts how questions ended.
type tallies struct{ answered, late, busy, away, failed atomic.Int32 }

func (c *tallies) add(err error) {
	switch {
	case err == nil:
		c.answered.Add(1)
	case errors.Is(err, ErrLate):
		c.late.Add(1)
	case errors.Is(err, ErrBusy):
		c.busy.Add(1)
	case errors.Is(err, ErrAway):
		c.away.Add(1)
	default:
		c.failed.Add(1)
	}
}

// askAtOnce puts n questions to a server at the same time and waits for all. None waits for longer than the budget.
func askAtOnce(t *testing.T, b *Batches[int, int], n, server int) (c *tallies) {
	t.Helper()
	c = &tallies{}
	began := time.Now()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			got, err := b.Do(t.Context(), 10*i+server, Late[int]{})
			if want := 10*i + server + 7; err == nil && got != want {
				t.Errorf("question %d has the answer %d", i, got)
			}
			c.add(err)
		})
	}
	all.Wait()
	if took := time.Since(began); took > budget {
		t.Errorf("waited for %v", took)
	}
	return c
}

// askFirst puts a question, and returns once it was sent.
func askFirst(t *testing.T, b *Batches[int, int]) *sync.WaitGroup {
	t.Helper()
	all := &sync.WaitGroup{}
	all.Go(func() {
		if _, err := b.Do(t.Context(), 0, Late[int]{}); err != nil {
			t.Errorf("the first question: %v", err)
		}
	})
	synctest.Wait()
	return all
}

func TestQuestionsThatComeWhileOneIsUnderWayShareTheNextRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers(budget / 10)
		b := s.batched(Options{}, false)
		if got, err := b.Do(t.Context(), 10, Late[int]{}); got != 17 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		began := time.Now()
		all := askFirst(t, b)
		if c := askAtOnce(t, b, maxBatch+3, 0); c.answered.Load() != maxBatch+3 {
			t.Errorf("%d of %d are answered", c.answered.Load(), maxBatch+3)
		}
		all.Wait()
		if took := time.Since(began); took != 3*budget/10 {
			t.Errorf("three round trips took %v", took)
		}
		synctest.Wait()
		if got := s.sizes(); !slices.Equal(got, []int{1, 1, maxBatch, 3}) {
			t.Errorf("round trips of %v questions", got)
		}
		if b.InFlight() != 0 || b.waiting != 0 || b.running != 0 {
			t.Errorf("%d in flight, %d wait, %d run", b.InFlight(), b.waiting, b.running)
		}
	})
}

func TestAFrozenServerHoldsNobodyForLongerThanTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const frozen = 20 * budget
		s := newServers(frozen)
		b := s.batched(Options{}, false)
		c := askAtOnce(t, b, 500, 0)
		if got := c.late.Load() + c.busy.Load(); got != 500 || c.late.Load() == 0 {
			t.Errorf("%d late, %d busy", c.late.Load(), c.busy.Load())
		}
		if !b.client.Away() {
			t.Error("it is asked on")
		}
		if c := askAtOnce(t, b, 10, 0); c.away.Load() != 10 {
			t.Errorf("%d are not asked", c.away.Load())
		}
		if s.most.Load() > maxBatches {
			t.Errorf("%d round trips at once", s.most.Load())
		}
		time.Sleep(2 * frozen)
		synctest.Wait()
		if b.InFlight() != 0 || b.running != 0 || b.waiting != 0 {
			t.Errorf("%d in flight, %d wait, %d run", b.InFlight(), b.waiting, b.running)
		}
		s.set(0, 0, nil)
		b.client.Probed(true)
		if c := askAtOnce(t, b, 500, 0); c.answered.Load() != 500 {
			t.Errorf("%d of 500 are answered after it thawed", c.answered.Load())
		}
	})
}

func TestWhoAsksOneByOneFindsAFrozenServerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newServers(20*budget).batched(Options{}, false)
		for range MaxFailures {
			if _, err := b.Do(t.Context(), 0, Late[int]{}); !errors.Is(err, ErrLate) {
				t.Errorf("got %v", err)
			}
		}
		if !b.client.Away() {
			t.Error("it is asked on")
		}
		b.Drain(time.Minute)
	})
}

func TestARoundTripThatHangsIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers(10 * budget)
		b := s.batched(Options{}, false)
		var first error
		var all sync.WaitGroup
		all.Go(func() { _, first = b.Do(t.Context(), 0, Late[int]{}) })
		synctest.Wait()
		s.set(0, budget/10, nil)
		if c := askAtOnce(t, b, 100, 0); c.answered.Load() != 100 {
			t.Errorf("%d of 100 are answered", c.answered.Load())
		}
		all.Wait()
		if !errors.Is(first, ErrLate) || b.client.Away() {
			t.Errorf("%v, away %t", first, b.client.Away())
		}
		b.Drain(time.Minute)
	})
}

func TestAServerThatHangsHoldsUpNoOthersQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers(0)
		s.set(1, 10*budget, nil)
		b := s.batched(Options{}, true)
		var all sync.WaitGroup
		all.Go(func() {
			if c := askAtOnce(t, b, 2, 1); c.answered.Load() != 0 {
				t.Error("the one that hangs answers")
			}
		})
		synctest.Wait()
		began := time.Now()
		if c := askAtOnce(t, b, 100, 2); c.answered.Load() != 100 || time.Since(began) != 0 {
			t.Errorf("%d of 100 are answered after %v", c.answered.Load(), time.Since(began))
		}
		all.Wait()
		b.Drain(time.Minute)
		if len(b.lanes) != 0 {
			t.Errorf("%d lanes are kept", len(b.lanes))
		}
	})
}

func TestWhoDidNotWaitUntilItWasSentIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers(budget / 5)
		b := s.batched(Options{}, false)
		all := askFirst(t, b)
		spent := new(Waited)
		spent.add(budget)
		if _, err := b.Do(WithWaited(t.Context(), spent), 10, Late[int]{OnLate: func(context.Context, int) { t.Error("it was sent") }}); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v", err)
		}
		all.Wait()
		synctest.Wait()
		if got := s.sizes(); len(got) != 1 {
			t.Errorf("round trips of %v questions", got)
		}
		if b.client.health.failures != 0 {
			t.Error("it counts as a failure")
		}
	})
}

func TestQuestionsThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newServers(20*budget).batched(Options{}, false)
		const n = maxWaiting + 100
		if c := askAtOnce(t, b, n, 0); c.busy.Load() < 99 || c.busy.Load()+c.late.Load() != n {
			t.Errorf("%d busy, %d late", c.busy.Load(), c.late.Load())
		}
		b.Drain(time.Minute)
		if b.waiting != 0 {
			t.Errorf("%d wait", b.waiting)
		}
	})
}

func TestAPanicAtAReplyFailsThoseOfItsRoundTripWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, panicking := 0, true
		a := newClient(Options{})
		b := NewBatches(a, BatchOptions[int, int]{Send: func(_ context.Context, qs []*Question[int, int]) {
			time.Sleep(budget / 10)
			for i, q := range qs {
				if i == answer {
					q.Reply(q.Ask+7, nil)
				}
			}
			if panicking {
				panic("at a reply")
			}
		}})
		all := askFirst(t, b)
		c := askAtOnce(t, b, 10, 0)
		if c.answered.Load() != 1 || c.failed.Load() != 9 {
			t.Errorf("%d answered, %d failed", c.answered.Load(), c.failed.Load())
		}
		all.Wait()
		a.Probed(true)
		panicking, answer = false, -1
		if _, err := b.Do(t.Context(), 0, Late[int]{}); !errors.Is(err, errNoAnswer) {
			t.Errorf("without an answer: %v", err)
		}
		b.Drain(time.Second)
	})
}

func TestTheAnswerOfABatchIsHeardByWhoAskedOrByWhoIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gotReply, unheard atomic.Int32
		for i := range 200 { // around the very moment
			b := newServers(budget+time.Duration(i%3-1)).batched(Options{}, false)
			got, err := b.Do(t.Context(), 0, Late[int]{OnLate: func(_ context.Context, n int) { unheard.Add(int32(n)) }})
			if err == nil {
				gotReply.Add(int32(got))
			}
			b.Drain(time.Minute)
		}
		if n := gotReply.Load() + unheard.Load(); n != 200*7 {
			t.Errorf("%d of 200 answers came to somebody", n/7)
		}
		s := newServers(time.Second)
		b := s.batched(Options{}, false)
		_, _ = b.Do(t.Context(), 0, Late[int]{OnLate: func(context.Context, int) { panic("at an answer") }})
		s.set(0, time.Second, errors.New("broken"))
		_, _ = b.Do(t.Context(), 0, Late[int]{OnLate: func(context.Context, int) { t.Error("an error is no answer") }})
		b.Drain(time.Minute)
	})
}

func TestAnAnswerOfABatchThatIsWorthMoreIsWaitedForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newServers(2*budget).batched(Options{}, false)
		began := time.Now()
		got, err := b.Do(t.Context(), 0, Late[int]{Extend: func() time.Duration { return 4 * budget }})
		if took := time.Since(began); got != 7 || err != nil || took != 2*budget {
			t.Errorf("got %d, %v after %v", got, err, took)
		}
		b.Drain(time.Minute)
	})
}

func TestABatchThatWasCutShortSaysNothingOfRedisBeforeItsAnswerComes(t *testing.T) {
	for takes, away := range map[time.Duration]bool{budget: false, budget + 1: true} {
		synctest.Test(t, func(t *testing.T) {
			b := newServers(takes).batched(Options{}, false)
			for range MaxFailures {
				p := new(Waited)
				p.add(budget / 2)
				if _, err := b.Do(WithWaited(t.Context(), p), 0, Late[int]{}); !errors.Is(err, ErrLate) || b.client.Away() {
					t.Errorf("%v, away %t", err, b.client.Away())
				}
				time.Sleep(takes)
				synctest.Wait()
			}
			if b.client.Away() != away {
				t.Errorf("an answer after %v: away %t", takes, b.client.Away())
			}
		})
	}
}

func TestAfterDrainNothingIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newServers(3*budget).batched(Options{}, false)
		_, _ = b.Do(t.Context(), 0, Late[int]{})
		began := time.Now()
		b.Drain(budget)
		if took := time.Since(began); took != budget {
			t.Errorf("drained for %v, at most %v", took, budget)
		}
		b.Drain(time.Minute)
		if took := time.Since(began); took != 2*budget || b.InFlight() != 0 {
			t.Errorf("drained for %v, %d in flight", took, b.InFlight())
		}
		if c := askAtOnce(t, b, 3, 0); c.busy.Load() != 3 {
			t.Errorf("%d busy", c.busy.Load())
		}
	})
}

func BenchmarkBatches(b *testing.B) {
	s := NewBatches(New(Options{Budget: func() time.Duration { return time.Second }, Slots: 1}),
		BatchOptions[int, int]{Send: func(_ context.Context, qs []*Question[int, int]) {
			for _, q := range qs {
				q.Reply(1, nil)
			}
		}})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = s.Do(context.Background(), 0, Late[int]{})
		}
	})
}
