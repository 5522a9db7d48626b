package cache

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// TopicPurges names what replicas tell each other of purges: the epoch of each purged scope, which is the time of the purge in µs
// or more. Of two epochs the later counts, so what Redis has lost is told again by any replica that knows it.
const TopicPurges = "purges:1"

const (
	// MaxEpochAge is how old the last reading may be for what Redis holds to be used.
	MaxEpochAge = time.Second
	// maxEpochs is the maximum number of scopes; a purge beyond that purges everything.
	maxEpochs = 4096
	// maxEpoch is far beyond all times, and leaves room for later epochs.
	maxEpoch = 1 << 62
)

// purges is what this replica knows of purges.
type purges struct {
	share func(context.Context) error // see [Options.Share]
	heard atomic.Pointer[time.Time]   // when the last reading was asked for; nil: there was none

	known atomic.Pointer[map[Scope]uint64] // never changed, only replaced; written under mu
	mu    sync.Mutex
}

// all is the scope of everything.
var all Scope

// age is how old the last reading is; false before the first.
func (s *Store) age() (time.Duration, bool) {
	at := s.purges.heard.Load()
	if at == nil {
		return 0, s.purges.share == nil
	}
	return s.now().Sub(*at), true
}

// Epochs returns the epochs of a tenant's requests to a route. ok is false if purges could not be read for longer than
// 10 s: then nothing may be served from the cache. Without any Redis only this replica purges.
func (s *Store) Epochs(tenant, route string) (e Epochs, ok bool) {
	if age, heard := s.age(); !heard || age > copyFor {
		return Epochs{}, false
	}
	k := *s.purges.known.Load()
	return Epochs{All: k[all], Tenant: k[Scope{Tenant: tenant}], Route: k[Scope{Route: route}]}, true
}

// Hears reports whether other replicas' purges were heard within the last second. If not, nothing that replicas share
// may be served.
func (s *Store) Hears() bool {
	age, heard := s.age()
	return heard && age <= MaxEpochAge
}

// Tell returns all that this replica knows.
func (s *Store) Tell() map[string]string {
	told := map[string]string{}
	for scope, epoch := range *s.purges.known.Load() {
		told[scope.field()] = strconv.FormatUint(epoch, 10)
	}
	return told
}

// Take takes over what another replica told. What makes no sense is a purge of everything.
func (s *Store) Take(field, text string, _ time.Duration) {
	scope, ok := scopeOf(field)
	epoch, err := strconv.ParseUint(text, 10, 64)
	if !ok || err != nil || epoch > maxEpoch {
		s.metrics.refused.WithLabelValues(refusedEpochs).Inc()
		s.log.Warn().Msg("what Redis says of a purge of the cache made no sense: everything is purged")
		s.change(func(k map[Scope]uint64) map[Scope]uint64 { return purge(k, all, s.now()) })
		return
	}
	s.change(func(k map[Scope]uint64) map[Scope]uint64 {
		switch {
		case epoch <= max(k[scope], k[all]):
			return k
		case len(k) >= maxEpochs && k[scope] == 0:
			return purge(k, all, s.now())
		}
		next := maps.Clone(k)
		next[scope] = epoch
		maps.DeleteFunc(next, func(of Scope, old uint64) bool { return of != all && old <= next[all] })
		return next
	})
}

// Heard says that all that Redis has was taken; it was asked at a time. If nobody knows when everything was purged last, it is
// purged now: what Redis knew of purges is new, or was lost.
func (s *Store) Heard(at time.Time) {
	s.change(func(k map[Scope]uint64) map[Scope]uint64 {
		if k[all] == 0 {
			return purge(k, all, s.now())
		}
		return k
	})
	s.purges.heard.Store(&at)
}

// change replaces what is known.
func (s *Store) change(next func(map[Scope]uint64) map[Scope]uint64) {
	p := &s.purges
	p.mu.Lock()
	defer p.mu.Unlock()
	k := next(*p.known.Load())
	p.known.Store(&k)
}

// Purge makes a scope's answers unreachable: here at once, and at every other replica within a second. By then one that
// cannot hear of purges serves nothing that replicas share. everything reports that all was purged instead, because there were too
// many different purges. Errors are those of [Scope.Check], and ErrNotShared.
func (s *Store) Purge(ctx context.Context, scope Scope) (everything bool, err error) {
	if err := scope.Check(); err != nil {
		return false, err
	}
	s.change(func(k map[Scope]uint64) map[Scope]uint64 { return purge(k, scope, s.now()) })
	if s.purges.share != nil {
		err = s.purges.share(ctx)
	}
	if err != nil {
		return false, fmt.Errorf("purge: %w: %w", ErrNotShared, err)
	}
	return (*s.purges.known.Load())[scope] == 0, nil
}

// purge adds a purge at a time to epochs, and returns others. Where there are too many, everything is purged. A clock that is behind
// what it knows does no harm.
func purge(epochs map[Scope]uint64, scope Scope, at time.Time) map[Scope]uint64 {
	now := uint64(at.UnixMicro())
	_, there := epochs[scope]
	if scope != all && (there || len(epochs) < maxEpochs) {
		next := maps.Clone(epochs)
		next[scope] = max(now, epochs[all]+1, epochs[scope]+1)
		return next
	}
	for _, epoch := range epochs {
		now = max(now, epoch+1)
	}
	return map[Scope]uint64{all: now}
}

// scopeOf is the scope of a field.
func scopeOf(field string) (s Scope, ok bool) {
	kind, name, _ := strings.Cut(field, ":")
	switch kind {
	case "all":
		return all, field == kind
	case "tenant":
		s.Tenant = name
	case "route":
		s.Route = name
	}
	return s, name != "" && s != all && s.Check() == nil
}
