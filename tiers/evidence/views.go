package evidence

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// retention is how long the view of an unused key is kept up to date.
const retention = 10 * time.Minute

// views holds the last known states, which requests use.
type views struct {
	mu    sync.RWMutex
	byKey map[risk.Key]*view // at most maxKeys
}

type view struct {
	lastUsed atomic.Int64 // unix ns
	seen     atomic.Pointer[seen]
	met      atomic.Bool // a request got New
}

// seen is a state that Redis had at this time or later.
type seen struct {
	risk.State
	at time.Time
}

// ask returns the view of a key, which is kept up to date from then on.
func (v *views) ask(k risk.Key, now time.Time) *view {
	v.mu.RLock()
	e := v.byKey[k]
	v.mu.RUnlock()
	if e == nil {
		if _, err := nameOf(k); err != nil {
			return &view{} // its state will never be known
		}
		e = v.add(k)
	}
	e.lastUsed.Store(now.UnixNano())
	return e
}

// add adds a key; if there are too many, the one with the oldest last use is deleted.
func (v *views) add(k risk.Key) *view {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.byKey[k]; e != nil {
		return e
	}
	if v.byKey == nil {
		v.byKey = make(map[risk.Key]*view)
	}
	for len(v.byKey) >= maxKeys {
		var oldest risk.Key
		var at *view
		for k, e := range v.byKey {
			if at == nil || e.lastUsed.Load() < at.lastUsed.Load() {
				oldest, at = k, e
			}
		}
		delete(v.byKey, oldest)
	}
	e := &view{}
	v.byKey[k] = e
	return e
}

// learn takes over a newer state of a key. An older one is ignored. A warm-up does not start again because
// Redis has lost it.
func (v *views) learn(k risk.Key, s risk.State, asked time.Time) {
	v.mu.RLock()
	e := v.byKey[k]
	v.mu.RUnlock()
	if e == nil {
		return
	}
	for {
		was, next := e.seen.Load(), &seen{s, asked}
		if was != nil {
			next.Warmup = s.Warmup.After(was.Warmup)
		}
		if was != nil && was.at.After(asked) || e.seen.CompareAndSwap(was, next) {
			return
		}
	}
}

// recentKeys returns the recently used keys; the others are deleted.
func (v *views) recentKeys(now time.Time) []risk.Key {
	v.mu.Lock()
	defer v.mu.Unlock()
	keys := make([]risk.Key, 0, len(v.byKey))
	for k, e := range v.byKey {
		if now.UnixNano()-e.lastUsed.Load() > retention.Nanoseconds() {
			delete(v.byKey, k)
		} else {
			keys = append(keys, k)
		}
	}
	return keys
}

// listing holds the keys that Redis had at a time.
type listing struct {
	names map[string]bool
	at    time.Time
}

// listingOf makes a listing of the index' names.
func listingOf(names []string, at time.Time) *listing {
	l := &listing{names: make(map[string]bool, len(names)), at: at}
	for _, name := range names {
		l.names[name] = true
	}
	return l
}
