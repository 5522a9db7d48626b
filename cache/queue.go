package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/panics"
)

const (
	// Bounds of the queue: a few seconds' worth of a replica's answers.
	maxQueued      = 1024
	maxQueuedBytes = 32 << 20
	// writers is small, so that look-ups always find a connection.
	writers = 4
)

// write is an entry to store.
type write struct {
	key   Key
	entry *Entry
	ttl   time.Duration
	then  func()
}

// queue holds the entries to store.
type queue struct {
	waits chan write
	bytes atomic.Int64 // of the answers in it
	over  atomic.Bool  // no writer runs any more
}

func newQueue() queue { return queue{waits: make(chan write, maxQueued)} }

// join adds a write, or returns why it does not.
func (q *queue) join(w write) (dropped string) {
	if q.over.Load() {
		return droppedStopped
	}
	size := int64(len(w.entry.Answer))
	if q.bytes.Add(size) <= maxQueuedBytes {
		select {
		case q.waits <- w:
			return ""
		default:
		}
	}
	q.bytes.Add(-size)
	return droppedQueue
}

// Put stores an entry for ttl, in the background; if the queue is full, it is dropped and counted. then, if
// not nil, is called once when the entry is stored or dropped; it must not block. The entry must not be
// changed afterwards. The copy in this process is made by the first hit.
func (s *Store) Put(k Key, e *Entry, ttl time.Duration, then func()) {
	if then == nil {
		then = func() {}
	}
	if s.redis == nil {
		then()
		return
	}
	if dropped := s.enqueue(write{k, e, max(ttl, time.Millisecond), then}); dropped != "" {
		s.metrics.dropped.WithLabelValues(dropped).Inc()
		then()
	}
}

// enqueue returns why a write is dropped, "" if it is not.
func (s *Store) enqueue(w write) (dropped string) {
	switch {
	case s.asker.Away():
		return droppedAway
	case len(w.entry.Answer) > s.maxEntry():
		return droppedLarge
	}
	return s.queue.join(w)
}

// runQueue writes until ctx ends, and then the rest, for lastTime at most.
func (s *Store) runQueue(ctx context.Context) {
	var all sync.WaitGroup
	for range writers {
		all.Go(func() { panics.KeepRunning(ctx, s.write) })
	}
	all.Wait()
}

// write runs one writer.
func (s *Store) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			s.writeRest(context.WithoutCancel(ctx))
			return
		case w := <-s.queue.waits:
			s.finish(context.WithoutCancel(ctx), w)
		}
	}
}

// writeRest writes what is queued when the store stops.
func (s *Store) writeRest(ctx context.Context) {
	s.queue.over.Store(true)
	ctx, cancel := context.WithTimeout(ctx, lastTime)
	defer cancel()
	for {
		select {
		case w := <-s.queue.waits:
			s.finish(ctx, w)
		default:
			return
		}
	}
}

// finish stores an entry, or counts why not.
func (s *Store) finish(ctx context.Context, w write) {
	s.queue.bytes.Add(-int64(len(w.entry.Answer)))
	if dropped := s.keep(ctx, w); dropped != "" {
		s.metrics.dropped.WithLabelValues(dropped).Inc()
	}
	w.then()
}

// keep stores an entry, or returns why it does not.
func (s *Store) keep(ctx context.Context, w write) (dropped string) {
	switch {
	case ctx.Err() != nil:
		return droppedStopped
	case s.asker.Away():
		return droppedAway
	}
	value := s.sealer.Seal(w.key, w.entry)
	if value == nil {
		return droppedUnsound
	}
	ttl := max(w.ttl-rand.N(w.ttl/10+1), time.Millisecond)
	err := inBackground(ctx, func(ctx context.Context) error { return s.redis.Set(ctx, w.key.Name(), value, ttl).Err() })
	switch {
	case err == nil:
		return ""
	case redis.IsOOMError(err):
		if s.mayLog(&s.fullLoggedAt) {
			s.log.Warn().Msg("no answers are kept: Redis is full, and may evict none of them (told once a minute)")
		}
		return droppedFull
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		return droppedStopped
	}
	return droppedError
}
