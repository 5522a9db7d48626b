package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/panics"
	"github.com/foregate/foregate/internal/redis/calls"
)

const (
	// Bounds of the queue: a few seconds' worth of a replica's answers.
	maxQueued      = 1024
	maxQueuedBytes = 32 << 20
	// writers is small, so that look-ups always find a connection.
	writers = 4
	// lastTime bounds the writes at the end.
	lastTime = time.Second
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

	mu    sync.Mutex
	bytes int  // of the answers in it
	over  bool // waits is closed
}

// join adds a write, or returns why it does not.
func (q *queue) join(w write) (dropped string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.over:
		return droppedStopped
	case len(q.waits) == cap(q.waits) || q.bytes+len(w.entry.Answer) > maxQueuedBytes:
		return droppedQueue
	}
	q.bytes += len(w.entry.Answer)
	q.waits <- w
	return ""
}

// left notes that a write is not in the queue any more.
func (q *queue) left(w write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= len(w.entry.Answer)
}

// close ends the queue: what is in it is the last.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	close(q.waits)
}

// Put stores an entry for ttl, in the background; if the queue is full, it is dropped and counted. then, if
// not nil, is called once when the entry is stored or dropped; it must not block. The entry must not be
// changed afterwards. The copy in this process is made by the first hit.
func (s *Store) Put(k Key, e *Entry, ttl time.Duration, then func()) {
	if then == nil {
		then = func() {}
	}
	dropped := ""
	switch {
	case s.redis == nil:
	case s.asker.Away():
		dropped = droppedAway
	case len(e.Answer) > s.maxEntry():
		dropped = droppedLarge
	default:
		if dropped = s.queue.join(write{k, e, max(ttl, time.Millisecond), then}); dropped == "" {
			return
		}
	}
	s.countDropped(dropped)
	then()
}

// countDropped counts why an entry is not stored; "" is none.
func (s *Store) countDropped(why string) {
	if why != "" {
		s.metrics.dropped.WithLabelValues(why).Inc()
	}
}

// runQueue writes until ctx ends, and then the rest, for lastTime at most.
func (s *Store) runQueue(ctx context.Context) {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			panics.KeepRunning(writing, func(context.Context) {
				for w := range s.queue.waits {
					s.queue.left(w)
					s.countDropped(s.keep(writing, w))
					w.then()
				}
			})
		})
	}
	<-ctx.Done()
	s.queue.close()
	defer time.AfterFunc(lastTime, cancel).Stop()
	all.Wait()
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
	err := calls.Bounded(ctx, calls.BackgroundTime, func(ctx context.Context) error { return s.redis.Set(ctx, w.key.Name(), value, ttl).Err() })
	switch {
	case err == nil:
		s.local.drop(w.key) // it may be of an answer that this one replaces
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
