package cache

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/calls"
)

const (
	// Bounds of what waits to be written: a few seconds' worth of a replica's answers.
	maxQueued      = 1024
	maxQueuedBytes = 32 << 20
	// writers is small, so that look-ups always find a connection.
	writers = 4
	// lastTime bounds the writes at the end.
	lastTime = time.Second
)

// queue bounds the entries that are being stored.
type queue struct {
	turns chan struct{} // of those that are written now
	ended chan struct{} // closed when nothing is written any more
	all   sync.WaitGroup

	mu       sync.Mutex
	n, bytes int
	over     bool // nothing more is stored
}

// join takes room for an entry, or returns why it is not stored.
func (q *queue) join(e *Entry) (dropped string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.over:
		return droppedStopped
	case q.n == maxQueued || q.bytes+len(e.Answer) > maxQueuedBytes:
		return droppedQueue
	}
	q.n, q.bytes = q.n+1, q.bytes+len(e.Answer)
	q.all.Add(1)
	return ""
}

// leave gives the room back.
func (q *queue) leave(e *Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n, q.bytes = q.n-1, q.bytes-len(e.Answer)
	q.all.Done()
}

// end waits for what is stored, for lastTime at most.
func (q *queue) end() {
	q.mu.Lock()
	q.over = true
	q.mu.Unlock()
	defer time.AfterFunc(lastTime, func() { close(q.ended) }).Stop()
	q.all.Wait()
}

// Put stores an entry for ttl, in the background; if too many are being stored, it is dropped and counted. then, if
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
		if dropped = s.queue.join(e); dropped == "" {
			go s.write(k, e, ttl, then)
			return
		}
	}
	s.countDropped(dropped)
	then()
}

// write stores an entry when it is its turn.
func (s *Store) write(k Key, e *Entry, ttl time.Duration, then func()) {
	q := &s.queue
	defer q.leave(e)
	defer then()
	select {
	case <-q.ended:
		s.countDropped(droppedStopped)
	case q.turns <- struct{}{}:
		defer func() { <-q.turns }()
		s.countDropped(s.keep(k, e, ttl))
	}
}

// countDropped counts why an entry is not stored; "" is none.
func (s *Store) countDropped(why string) {
	if why != "" {
		s.metrics.dropped.WithLabelValues(why).Inc()
	}
}

// keep stores an entry, or returns why it does not.
func (s *Store) keep(k Key, e *Entry, ttl time.Duration) (dropped string) {
	if s.asker.Away() {
		return droppedAway
	}
	value := s.sealer.Seal(k, e)
	if value == nil {
		return droppedUnsound
	}
	ttl = max(ttl-rand.N(max(ttl, 0)/10+1), time.Millisecond)
	err := calls.Bounded(context.Background(), calls.BackgroundTime, func(ctx context.Context) error { return s.redis.Set(ctx, k.Name(), value, ttl).Err() })
	switch {
	case err == nil:
		s.local.drop(k) // it may be of an answer that this one replaces
		return ""
	case redis.IsOOMError(err):
		if s.mayLog(&s.fullLoggedAt) {
			s.log.Warn().Msg("no answers are kept: Redis is full, and may evict none of them (told once a minute)")
		}
		return droppedFull
	}
	return droppedError
}
