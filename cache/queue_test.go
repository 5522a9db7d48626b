package cache

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/redistest"
)

// unrun is a store at a Redis that nobody asks, whose queue nobody empties.
func unrun(t testing.TB) *Store {
	t.Helper()
	return NewStore(Options{Redis: redistest.Client(t, redistest.OnRequests("127.0.0.1:1"))})
}

func TestTheQueueIsBoundedByCountAndBytes(t *testing.T) {
	for _, c := range []struct {
		name         string
		size, joined int
	}{
		{"many", 10, maxQueued},
		{"large", 1 << 20, maxQueuedBytes >> 20},
	} {
		s := unrun(t)
		for range writers { // nobody writes
			s.queue.turns <- struct{}{}
		}
		e := &Entry{Answer: make([]byte, c.size)}
		told := 0
		for range maxQueued + 100 {
			s.Put(keyNo(1), e, time.Hour, func() { told++ })
		}
		dropped := count(s.metrics.dropped, droppedQueue)
		if s.queue.n != c.joined || dropped != maxQueued+100-c.joined || told != dropped {
			t.Errorf("%s: %d queued, %d dropped, %d told; want %d queued", c.name, s.queue.n, dropped, told, c.joined)
		}
	}
}

func TestWhatMustNotBeKeptIsDropped(t *testing.T) {
	r := redistest.Start(t)
	s := storeAt(t, r.Addr)
	running(t, s)
	s.maxEntry = func() int { return 100 }
	for why, e := range map[string]*Entry{
		droppedLarge:   {Answer: make([]byte, 101)},
		droppedUnsound: {Prompt: -1},
	} {
		keep(t, s, keyNo(1), e)
		if got := count(s.metrics.dropped, why); got != 1 {
			t.Errorf("%d dropped as %s", got, why)
		}
	}
	wantFound(t, s, keyNo(1), ResultMiss)
}

func TestWhatIsQueuedIsWrittenBeforeTheEnd(t *testing.T) {
	r := redistest.Start(t)
	s := storeAt(t, r.Addr)
	var told atomic.Int32
	const n = 200
	for i := range n {
		s.Put(keyNo(i), answerOf(keyNo(i), 1000), time.Hour, func() { told.Add(1) })
	}
	running(t, s)()
	if told.Load() != n {
		t.Errorf("%d of %d are told", told.Load(), n)
	}
	written := func() int { return len(r.Client.Keys(t.Context(), keyPrefix+"*").Val()) }
	if got := written(); got != n {
		t.Errorf("%d of %d were written", got, n)
	}
	keep(t, s, keyNo(n), answerOf(keyNo(n), 10))
	if got := count(s.metrics.dropped, droppedStopped); got != 1 || written() != n {
		t.Errorf("%d dropped after the end", got)
	}
}

func TestWhatCannotBeWrittenDoesNotHoldUpTheEnd(t *testing.T) {
	s := NewStore(Options{Redis: redistest.Client(t, redistest.OnRequests(redistest.StartProxy(t, redistest.Start(t).Addr, time.Minute).Addr))})
	var told atomic.Int32
	for i := range maxQueued {
		s.Put(keyNo(i), answerOf(keyNo(i), 10), time.Hour, func() { told.Add(1) })
	}
	began := time.Now()
	running(t, s)()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it ends after %v", took)
	}
	if told.Load() != maxQueued {
		t.Errorf("%d of %d are told", told.Load(), maxQueued)
	}
}

// TestAFullRedisIsReadAndWhatCannotBeKeptIsDropped fills a real one that evicts nothing.
func TestAFullRedisIsReadAndWhatCannotBeKeptIsDropped(t *testing.T) {
	r := redistest.Start(t)
	s := storeAt(t, r.Addr)
	running(t, s)
	a, b := keyNo(1), keyNo(2)
	keep(t, s, a, answerOf(a, 100))
	raw, ctx := r.Client, t.Context()
	must(t, raw.ConfigSet(ctx, "maxmemory", "1").Err())
	for range 3 {
		keep(t, s, b, answerOf(b, 100))
	}
	if got := count(s.metrics.dropped, droppedFull); got != 3 {
		t.Errorf("%d dropped", got)
	}
	wantFound(t, s, a, ResultHit)
	wantFound(t, s, b, ResultMiss)
	must(t, raw.ConfigSet(ctx, "maxmemory", "0").Err())
	keep(t, s, b, answerOf(b, 100))
	wantFound(t, s, b, ResultHit)
	if s.asker.Away() {
		t.Error("it is left alone")
	}
}
