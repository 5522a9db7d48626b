package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/calls"
)

// KeyEpochs is a hash: purged scope → its epoch, the time of the purge in µs or more. It has no TTL, because stored
// responses live for as long as settings let them. It has the hash tag of all keys that replicas share.
const KeyEpochs = "foregate:{fg}:epochs"

const (
	// epochsInterval is the time between readings of the hash where no exchange reads it.
	epochsInterval = 250 * time.Millisecond
	// MaxEpochAge is how old the last reading may be for what Redis holds to be used.
	MaxEpochAge = time.Second
	// maxEpochs is the maximum number of fields of the hash; a purge beyond that purges everything.
	maxEpochs = 4096
	// maxEpoch is far beyond all times, and leaves room for later epochs.
	maxEpoch = 1 << 62
	// retryAmend is the time between attempts to write the hash, and amendTime bounds one.
	retryAmend, amendTime = 100 * time.Millisecond, 500 * time.Millisecond
)

// purges is what this replica knows of purges.
type purges struct {
	known atomic.Pointer[reading] // nil before the first good one
	due   chan struct{}           // has the hash written soon
	limit time.Duration           // amendTime; tests on a busy machine wait longer

	mu      sync.Mutex     // held while the hash is written
	pending map[Scope]bool // purged here, and not in the hash yet
	refused bool           // a refusal was logged, and not its end
}

// reading is a reading of the hash, with what was purged here since. It is immutable.
type reading struct {
	epochs map[Scope]uint64
	at     time.Time // Redis was asked then
}

// all is the scope of everything.
var all Scope

// Epochs returns the epochs of a tenant's requests to a route. ok is false if purges could not be read for longer than
// 10 s: then nothing may be served from the cache. Without any Redis only this replica purges.
func (s *Store) Epochs(tenant, route string) (e Epochs, ok bool) {
	k := s.purges.known.Load()
	if k == nil || s.control != nil && s.now().Sub(k.at) > copyFor {
		return Epochs{}, false
	}
	return Epochs{All: k.epochs[all], Tenant: k.epochs[Scope{Tenant: tenant}], Route: k.epochs[Scope{Route: route}]}, true
}

// Hears reports whether other replicas' purges were heard within the last second. If not, nothing that replicas share
// may be served.
func (s *Store) Hears() bool {
	k := s.purges.known.Load()
	return s.control == nil || k != nil && s.now().Sub(k.at) <= MaxEpochAge
}

// ReadEpochs takes a reading of [KeyEpochs], or its error; Redis was asked at a time. It does not block. What this replica
// knows and Redis has lost is written again.
func (s *Store) ReadEpochs(hash map[string]string, err error, at time.Time) {
	p := &s.purges
	if !p.mu.TryLock() {
		return // the hash is being written: a later reading will do
	}
	defer p.mu.Unlock()
	said, wrong := parseEpochs(hash)
	switch {
	case err != nil && !isWrongType(err):
		s.noteRefusal(err)
		return
	case err != nil || wrong != nil:
		s.metrics.refused.WithLabelValues(refusedEpochs).Inc()
	case len(p.pending) == 0 && maps.Equal(revise(p.known.Load(), said, at), said):
		p.known.Store(&reading{said, at})
		s.noteRefusal(nil)
		return
	}
	p.wake()
}

// wake has the hash written soon.
func (p *purges) wake() {
	select {
	case p.due <- struct{}{}:
	default:
	}
}

// watchPurges writes the hash when that is due, and reads it where no exchange does, until ctx ends.
func (s *Store) watchPurges(ctx context.Context) {
	var poll <-chan time.Time
	if s.polls {
		ticker := time.NewTicker(epochsInterval)
		defer ticker.Stop()
		poll = ticker.C
		s.askEpochs(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll:
			s.askEpochs(ctx)
			continue
		case <-s.purges.due:
		}
		s.purges.mu.Lock()
		err := s.amend(ctx)
		s.noteRefusal(err)
		s.purges.mu.Unlock()
		if err != nil {
			time.AfterFunc(retryAmend, s.purges.wake)
		}
	}
}

// askEpochs makes a reading.
func (s *Store) askEpochs(ctx context.Context) {
	at := s.now()
	var hash map[string]string
	err := calls.Bounded(ctx, calls.BackgroundTime, func(ctx context.Context) (err error) {
		hash, err = s.control.HGetAll(ctx, KeyEpochs).Result()
		return err
	})
	s.ReadEpochs(hash, err, at)
}

// noteRefusal counts a refusal of Redis, and logs its beginning and its end; mu is held.
func (s *Store) noteRefusal(err error) {
	p := &s.purges
	_, refused := errors.AsType[redis.Error](err)
	if refused {
		s.metrics.refused.WithLabelValues(refusedEpochs).Inc()
	}
	switch {
	case refused && !p.refused:
		p.refused = true
		s.log.Warn().Err(err).Str("key", KeyEpochs).Msg("purges of the cache cannot be heard, so it is not used")
	case err == nil && p.refused:
		p.refused = false
		s.log.Info().Msg("purges of the cache are heard again")
	}
}

// amend writes into the hash what was purged here and what it has lost; mu is held. If another replica writes an earlier purge
// of the same scope at the same time, a later reading shows that.
func (s *Store) amend(ctx context.Context) error {
	p, at := &s.purges, s.now()
	known := p.known.Load()
	var next map[Scope]uint64
	err := calls.Bounded(ctx, p.limit, func(ctx context.Context) error {
		hash, err := s.control.HGetAll(ctx, KeyEpochs).Result()
		wrongType := isWrongType(err)
		if err != nil && !wrongType {
			return err
		}
		said, _ := parseEpochs(hash)
		next = revise(known, said, at)
		for scope := range p.pending {
			next = purge(next, scope, at)
		}
		var fields []any
		for scope, epoch := range next {
			if said[scope] != epoch {
				fields = append(fields, scope.field(), epoch)
			}
		}
		if len(fields) == 0 {
			return nil
		}
		_, err = s.control.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			if wrongType || said == nil || len(next) < len(said) { // a purge of everything replaces it
				pipe.Unlink(ctx, KeyEpochs)
			}
			pipe.HSet(ctx, KeyEpochs, fields...)
			return nil
		})
		return err
	})
	if err != nil {
		return err
	}
	if known != nil && next[all] > known.epochs[all] && !p.pending[all] {
		s.log.Warn().Str("key", KeyEpochs).Msg("purges of the cache made no sense, or were too many: everything is purged")
	}
	p.known.Store(&reading{next, at})
	clear(p.pending)
	return nil
}

// revise is what the hash must say: of each scope the later of what is known and what it says, except what a purge of
// everything covers. Everything is purged at a time if the hash makes no sense (nil), or if nobody knows when that was done
// last: it is new, or was lost.
func revise(known *reading, said map[Scope]uint64, at time.Time) map[Scope]uint64 {
	if known == nil {
		known = &reading{}
	}
	if said == nil || max(said[all], known.epochs[all]) == 0 {
		return purge(known.epochs, all, at)
	}
	next := maps.Clone(said)
	next[all] = max(next[all], known.epochs[all])
	for scope, epoch := range known.epochs {
		if epoch > max(next[scope], next[all]) {
			next[scope] = epoch
		}
	}
	return next
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

// parseEpochs reads the hash. One that makes no sense is nil and an error.
func parseEpochs(hash map[string]string) (map[Scope]uint64, error) {
	if len(hash) > maxEpochs {
		return nil, fmt.Errorf("%d purges are too many", len(hash))
	}
	epochs := make(map[Scope]uint64, len(hash))
	for field, value := range hash {
		scope, ok := scopeOf(field)
		epoch, err := strconv.ParseUint(value, 10, 64)
		if !ok || err != nil || epoch > maxEpoch {
			return nil, fmt.Errorf("a purge of %.64q at %.24q", field, value)
		}
		epochs[scope] = epoch
	}
	return epochs, nil
}

// scopeOf is the scope of a field of the hash.
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
