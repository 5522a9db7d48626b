package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
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
	// suspendedFor is how long nothing is written after Redis reported that it is full.
	suspendedFor = 5 * time.Second
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

	mu        sync.Mutex
	over      bool // no writer runs
	bytes     int  // of the answers in it
	suspended time.Time
}

func newQueue() queue { return queue{waits: make(chan write, maxQueued)} }

// join adds a write, or returns why it does not.
func (q *queue) join(w write, now time.Time) (dropped string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.over:
		return droppedStopped
	case now.Before(q.suspended):
		return droppedFull
	case q.bytes+len(w.entry.Answer) > maxQueuedBytes:
		return droppedQueue
	}
	select {
	case q.waits <- w:
		q.bytes += len(w.entry.Answer)
		return ""
	default:
		return droppedQueue
	}
}

// release removes writes of so many bytes from the queue's count.
func (q *queue) release(bytes int) {
	q.mu.Lock()
	q.bytes -= bytes
	q.mu.Unlock()
}

// close closes or reopens the queue.
func (q *queue) close(over bool) {
	q.mu.Lock()
	q.over = over
	q.mu.Unlock()
}

// suspend stops writing for a while. It returns false if it was stopped already.
func (q *queue) suspend(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	was := now.Before(q.suspended)
	q.suspended = now.Add(suspendedFor)
	return !was
}

func (q *queue) isSuspended(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return now.Before(q.suspended)
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
		s.metrics.dropped.add(dropped)
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
	return s.queue.join(w, s.now())
}

// runQueue writes until ctx ends, and then the rest, for lastTime at most.
func (s *Store) runQueue(ctx context.Context) {
	s.queue.close(false)
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
	s.queue.close(true)
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
	s.queue.release(len(w.entry.Answer))
	if dropped := s.keep(ctx, w); dropped != "" {
		s.metrics.dropped.add(dropped)
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
	case s.queue.isSuspended(s.now()):
		return droppedFull
	}
	value := s.sealer.Seal(w.key, w.entry)
	if value == nil {
		return droppedUnsound
	}
	ttl := max(w.ttl-rand.N(w.ttl/10+1), time.Millisecond)
	err := inBackground(ctx, func(ctx context.Context) error { return s.redis.Set(ctx, w.key.Name(), value, ttl).Err() })
	switch {
	case err == nil:
		s.metrics.written.Add(float64(len(value)))
		return ""
	case redis.IsOOMError(err):
		if s.queue.suspend(s.now()) {
			s.log.Warn().Dur("for", suspendedFor).Msg("no answers are kept: Redis is full, and may evict none of them")
		}
		return droppedFull
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		return droppedStopped
	}
	return droppedError
}
