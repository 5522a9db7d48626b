package breaker

import (
	"cmp"
	"slices"
	"time"
)

// floor decides which of the pool's breakers may keep requests out for what the backend
// answered: the first half of the pool that opened, rounded down, so that no prompt that
// breaks every backend, and no mistake of ours in judging answers, closes a pool. A pool of
// one backend keeps it. A right once given stays until the breaker has closed. What cannot
// be reached needs none. Of a pool whose size nobody has told all may.
func (s *Set) floor(pool string) {
	s.flooring.Lock()
	defer s.flooring.Unlock()
	s.mu.Lock()
	n, known := s.members[pool]
	s.mu.Unlock()
	if !known {
		return
	}
	now := time.Now()
	type wish struct {
		*entry
		since time.Time
	}
	var wishes []wish
	for k, e := range *s.entries.Load() {
		if k.pool != pool {
			continue
		}
		if since := e.wants(now); !since.IsZero() {
			wishes = append(wishes, wish{e, since})
		} else {
			e.allowShut(false, now)
		}
	}
	slices.SortFunc(wishes, func(a, b wish) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.backend, b.backend))
	})
	most := min(n/2, len(wishes))
	for _, w := range wishes[most:] { // take before giving: there are never more
		w.allowShut(false, now)
	}
	for _, w := range wishes[:most] {
		w.allowShut(true, now)
	}
}

// wants is since when the breaker is not closed, for what the backend answered; zero
// where it is not so.
func (e *entry) wants(now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shown == closed || e.unreached(now) {
		return time.Time{}
	}
	return e.since
}

// allowShut gives or takes the right to keep requests out.
func (e *entry) allowShut(may bool, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.may != may {
		e.may = may
		e.publish(now)
	}
}
