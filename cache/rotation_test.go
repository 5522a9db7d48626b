package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/internal/redistest"
)

// rotation is two replicas' stores over one Redis, with a key each time it is asked for, and requests for answers
// that are kept there.
type rotation struct {
	stores  [2]*Store
	sealers [2]*Sealer

	looks atomic.Int64
	lost  atomic.Int64 // looks for what is kept that found nothing
	under sync.RWMutex // held for reading by each request
}

// newRotation makes the stores, with a key each; they have no copies of their own.
func newRotation(t *testing.T, key SealKey) *rotation {
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	r := &rotation{}
	for i := range r.stores {
		o := redistest.OnRequests(m.Addr())
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = patient(), patient(), patient()
		r.sealers[i] = mustSealer(t, key)
		r.stores[i] = NewStore(Options{Redis: redistest.Client(t, o), Budget: patient, Sealer: r.sealers[i], LocalBytes: -1, Registerer: prometheus.NewRegistry()})
		running(t, r.stores[i])
	}
	return r
}

const (
	rotated     = 20               // answers that are asked for again and again
	rotationMay = 30 * time.Second // take, a step: others may have the processors
)

// keep has the first store keep them all.
func (r *rotation) keep(t *testing.T) {
	t.Helper()
	for i := range rotated {
		redistest.Within(t, rotationMay, "it is kept", func() bool {
			keep(t, r.stores[0], keyNo(i), answerOf(keyNo(i), 100))
			_, found := r.stores[0].Look(t.Context(), keyNo(i))
			return found == ResultHit
		})
	}
}

// look asks a store for an answer. A reply that comes too late tells nothing of keys.
func (r *rotation) look(ctx context.Context, store, key int) Result {
	_, found := r.stores[store].Look(ctx, keyNo(key))
	r.looks.Add(1)
	return found
}

// load asks until ctx ends: for the answers that are there, and for new ones, which one store keeps and the other
// looks for.
func (r *rotation) load(ctx context.Context) (wait func()) {
	var all sync.WaitGroup
	for store := range r.stores {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r.under.RLock()
				if r.look(ctx, store, n%rotated) == ResultMiss {
					r.lost.Add(1)
				}
				r.under.RUnlock()
			}
		})
		all.Go(func() {
			for n := rotated + store; ctx.Err() == nil; n += len(r.stores) {
				r.under.RLock()
				kept := make(chan struct{})
				r.stores[store].Put(keyNo(n), answerOf(keyNo(n), 100), time.Hour, func() { close(kept) })
				select {
				case <-kept:
					r.look(ctx, 1-store, n)
				case <-ctx.Done():
				}
				r.under.RUnlock()
			}
		})
	}
	return all.Wait
}

// replace gives one store after the other these keys, each for some requests.
func (r *rotation) replace(t *testing.T, keys ...SealKey) {
	t.Helper()
	for _, s := range r.sealers {
		must(t, s.Replace(keys...))
		seen := r.looks.Load()
		redistest.Within(t, rotationMay, "requests come", func() bool { return r.looks.Load() > seen+100 })
	}
	if n := r.lost.Swap(0); n > 0 {
		t.Errorf("with the keys %s…: %d of %d looks find nothing", keys[0].ID, n, r.looks.Load())
	}
}

func TestKeysAreReplacedUnderLoadWithoutLosingAHit(t *testing.T) {
	older, newer := SealKey{"older", secret(1)}, SealKey{"newer", secret(2)}
	r := newRotation(t, older)
	r.keep(t)
	ctx, stop := context.WithCancel(t.Context())
	wait := r.load(ctx)
	r.replace(t, older, newer)
	r.replace(t, newer, older)
	r.under.Lock() // as after cache.ttl: whatever the older one sealed is gone, and nobody reads it any more
	r.keep(t)
	must(t, r.sealers[0].Replace(newer))
	must(t, r.sealers[1].Replace(newer))
	r.under.Unlock()
	r.replace(t, newer)
	stop()
	wait()
	for i, s := range r.stores {
		for _, why := range []string{refusedDamaged, refusedForeign} {
			if n := count(s.metrics.refused, why); n > 0 {
				t.Errorf("store %d: %d values were refused as %s", i, n, why)
			}
		}
	}
}
