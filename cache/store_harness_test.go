package cache

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/internal/redistest"
)

// must fails a test for an error of its own hands.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patient is a budget that a busy machine keeps: what is late would be a miss.
func patient() time.Duration { return 5 * time.Second }

// storeAt is a store whose client is as patient as its budget.
func storeAt(t testing.TB, addr string) *Store {
	t.Helper()
	o := redistest.OnRequests(addr)
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = patient(), patient(), patient()
	return NewStore(Options{Redis: redistest.Client(t, o), Budget: patient, Registerer: prometheus.NewRegistry()})
}

// running runs a store until stop, or the test's end.
func running(t testing.TB, s *Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// answerOf is an entry of a request.
func answerOf(k Key, n int) *Entry {
	e := entryNo(int(k.name[0]), n)
	e.Created = time.UnixMilli(time.Now().UnixMilli())
	return e
}

// keep puts an entry and waits until Redis has it.
func keep(t testing.TB, s *Store, k Key, e *Entry) {
	t.Helper()
	done := make(chan struct{})
	s.Put(k, e, time.Hour, func() { close(done) })
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it is not told when an entry is kept")
	}
}

// wantFound looks once.
func wantFound(t testing.TB, s *Store, k Key, want Result) *Entry {
	t.Helper()
	e, got := s.Look(t.Context(), k)
	if got != want || (e != nil) != (want == ResultHit) {
		t.Fatalf("found %s (entry %t), want %s", got, e != nil, want)
	}
	return e
}

// count is how often a reason was counted.
func count(by *prometheus.CounterVec, reason string) int {
	return int(testutil.ToFloat64(by.WithLabelValues(reason)))
}
