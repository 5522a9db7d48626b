package evidence

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// askedFor is how long the view of a key is kept up to date that nobody asks for.
const askedFor = 10 * time.Minute

// views are the states that requests go by, as they were last seen.
type views struct {
	mu    sync.RWMutex
	known map[risk.Key]*view // maxKeys at most
}

type view struct {
	asked atomic.Int64 // unix ns
	seen  atomic.Pointer[seen]
	met   atomic.Bool // a request was told that it is the first
}

// seen is a state that Redis had at a time or later.
type seen struct {
	risk.State
	at time.Time
}

// ask is the view of a key, which is kept up to date from then on.
func (v *views) ask(k risk.Key, now time.Time) *view {
	v.mu.RLock()
	e := v.known[k]
	v.mu.RUnlock()
	if e == nil {
		if _, err := nameOf(k); err != nil {
			return &view{} // nothing will ever be known of it
		}
		e = v.add(k)
	}
	e.asked.Store(now.UnixNano())
	return e
}

// add makes room for another key: that which was not asked for the longest goes.
func (v *views) add(k risk.Key) *view {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.known[k]; e != nil {
		return e
	}
	if v.known == nil {
		v.known = make(map[risk.Key]*view)
	}
	for len(v.known) >= maxKeys {
		var oldest risk.Key
		var at *view
		for k, e := range v.known {
			if at == nil || e.asked.Load() < at.asked.Load() {
				oldest, at = k, e
			}
		}
		delete(v.known, oldest)
	}
	e := &view{}
	v.known[k] = e
	return e
}

// learn takes over a state of a key that is asked for. One that was asked earlier than what is
// known is no news. A warm-up is not begun anew by a Redis that has forgotten it.
func (v *views) learn(k risk.Key, s risk.State, asked time.Time) {
	v.mu.RLock()
	e := v.known[k]
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

// wanted are the keys that were asked for of late; the others are forgotten.
func (v *views) wanted(now time.Time) []risk.Key {
	v.mu.Lock()
	defer v.mu.Unlock()
	keys := make([]risk.Key, 0, len(v.known))
	for k, e := range v.known {
		if now.UnixNano()-e.asked.Load() > askedFor.Nanoseconds() {
			delete(v.known, k)
		} else {
			keys = append(keys, k)
		}
	}
	return keys
}

// listing is which keys Redis had at a time.
type listing struct {
	names map[string]bool
	at    time.Time
}

// listingOf is of the names of the index.
func listingOf(names []string, at time.Time) *listing {
	l := &listing{names: make(map[string]bool, len(names)), at: at}
	for _, name := range names {
		l.names[name] = true
	}
	return l
}
