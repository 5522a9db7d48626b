package cache

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/internal/redis/calls"
)

// maxLooks bounds the look-ups in progress; others wait for their turn. With the writers they are fewer than the
// client's connections, so none waits for one of these.
const maxLooks = 24

// keyProbe is the key for testing a recovery: no entry has it.
const keyProbe = keyPrefix + "{probe}"

// Look reads an entry from Redis, in one round trip and at most for the budget. A value that cannot be opened is
// counted and deleted, and is treated as absent. The copy in this process is made even if the reply is late.
func (s *Store) Look(ctx context.Context, k Key) (*Entry, Result) {
	switch {
	case s.redis == nil:
		return nil, ResultMiss
	case !s.Hears():
		return nil, ResultAway
	}
	began := s.now()
	e, err := calls.Do(ctx, s.asker, func(ctx context.Context) (*Entry, error) { return s.read(ctx, k) }, calls.Late[*Entry]{})
	if errors.Is(err, calls.ErrAway) {
		return nil, ResultAway
	}
	s.metrics.lookup.Observe(s.now().Sub(began).Seconds())
	switch {
	case errors.Is(err, calls.ErrLate), errors.Is(err, calls.ErrBusy):
		return nil, ResultLate
	case err != nil:
		return nil, ResultError
	case e == nil:
		return nil, ResultMiss
	}
	return e, ResultHit
}

// read asks Redis for an entry, and keeps a copy; nil is none that opens.
func (s *Store) read(ctx context.Context, k Key) (*Entry, error) {
	requestedAt, name := s.now(), k.Name()
	value, err := s.ask(ctx, name)
	switch {
	case isWrongType(err):
		return nil, s.refuse(ctx, name, refusedType)
	case err != nil || len(value) == 0:
		return nil, err
	}
	if len(value) > s.maxValue() {
		return nil, s.refuse(ctx, name, refusedLarge)
	}
	e, err := s.sealer.Open(k, value, s.maxAnswer())
	switch {
	case errors.Is(err, ErrForeign):
		return nil, s.refuse(ctx, name, refusedForeign)
	case err != nil:
		return nil, s.refuse(ctx, name, refusedDamaged)
	}
	s.local.fill(k, e, requestedAt)
	return e, nil
}

// ask reads a value, empty for none. Of one that is larger than the bound it reads one byte more than that.
func (s *Store) ask(ctx context.Context, name string) ([]byte, error) {
	return s.redis.GetRange(ctx, name, 0, int64(s.maxValue())).Bytes()
}

// isWrongType reports whether a key is not a string: somebody else has written it, and Redis is well.
func isWrongType(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") }

// maxAnswer bounds the answers that are served, in bytes: an answer that was stored under a slightly larger
// cache.max_entry_bytes is still served.
func (s *Store) maxAnswer() int { return 2 * s.maxEntry() }

// maxValue bounds the values that are read, in bytes.
func (s *Store) maxValue() int { return s.maxAnswer() + sealOverhead }

// sealOverhead bounds the bytes of a value besides its answer.
const sealOverhead = headerLen + maxID + sealedBy + minPlain + maxHead

// logInterval is the minimum time between equal log lines.
const logInterval = time.Minute

// mayLog reports whether a line may be logged whose last time is given, in Unix nanoseconds: there may be many.
func (s *Store) mayLog(last *atomic.Int64) bool {
	now, was := s.now().UnixNano(), last.Load()
	return now-was >= int64(logInterval) && last.CompareAndSwap(was, now)
}

// refuse counts a value that is ignored, and deletes it. A good value that was written in between is deleted,
// too: that costs one generation.
func (s *Store) refuse(ctx context.Context, key, why string) error {
	s.metrics.refused.WithLabelValues(why).Inc()
	if s.mayLog(&s.refusalLoggedAt) {
		s.log.Warn().Str("key", key).Str("reason", why).
			Msg("a value in the Redis of answers is not ours, so it is deleted, and a miss: somebody changed or forged it, or it was sealed with another key or by another release (told once a minute)")
	}
	return s.redis.Unlink(ctx, key).Err()
}
