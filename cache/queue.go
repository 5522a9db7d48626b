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
	// Bounds of what is written in one round trip: answers, and bytes of them. A larger answer goes alone.
	maxWrites      = 64
	maxWritesBytes = 1 << 20
	// writeInterval is the minimum time between two round trips, so that a busy replica makes few. The first
	// answer after a pause is written at once.
	writeInterval = 2 * time.Millisecond
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
	turn  sync.Mutex // of the writer that collects the next round trip's writes
	next  time.Time  // earliest time of that; guarded by turn

	mu        sync.Mutex
	over      bool // no writer runs
	bytes     int  // of the answers in it
	suspended time.Time
}

func newQueue() queue { return queue{waits: make(chan write, maxQueued)} }

func (q *queue) waiting() int { return len(q.waits) }

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
// changed afterwards. The copy in this process is not made here but by the first hit: then it is a copy of
// Redis' value, made with a ticket, and our own write does not invalidate it.
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
	var batch []write
	for {
		if batch = s.collect(ctx, batch); len(batch) == 0 {
			break
		}
		s.finish(context.WithoutCancel(ctx), batch)
	}
	s.queue.close(true)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	for {
		if batch = s.queue.take(batch[:0]); len(batch) == 0 {
			return
		}
		s.finish(last, batch)
	}
}

// collect waits for writes, and returns those of the next round trip; none when ctx ends.
func (s *Store) collect(ctx context.Context, batch []write) []write {
	q := &s.queue
	q.turn.Lock()
	defer q.turn.Unlock()
	select {
	case <-ctx.Done():
		return nil
	case w := <-q.waits:
		batch = append(batch[:0], w)
	}
	if wait := time.Until(q.next); wait > 0 {
		rest(ctx, wait)
	}
	q.next = time.Now().Add(writeInterval)
	return q.take(batch)
}

// take adds what waits to a batch, within the bounds of a round trip. All of it leaves the queue's counts.
func (q *queue) take(batch []write) []write {
	bytes := 0
	for _, w := range batch {
		bytes += len(w.entry.Answer)
	}
	for len(batch) < maxWrites && bytes < maxWritesBytes {
		select {
		case w := <-q.waits:
			batch = append(batch, w)
			bytes += len(w.entry.Answer)
			continue
		default:
		}
		break
	}
	q.release(bytes)
	return batch
}

// finish stores entries, or counts why not.
func (s *Store) finish(ctx context.Context, batch []write) {
	defer clear(batch)
	dropped := s.keep(ctx, batch)
	for i, w := range batch {
		if dropped[i] != "" {
			s.metrics.dropped.add(dropped[i])
		}
		func() {
			defer panics.Recover(ctx)
			w.then()
		}()
	}
}

// keep stores entries in one round trip. It returns why each is not stored, "" if it is.
func (s *Store) keep(ctx context.Context, batch []write) (dropped []string) {
	dropped = make([]string, len(batch))
	replies := make([]*redis.StatusCmd, len(batch))
	sizes := make([]int, len(batch))
	pipe := s.redis.Pipeline()
	for i, w := range batch {
		if dropped[i] = s.unwritable(ctx); dropped[i] != "" {
			continue
		}
		value := s.sealer.Seal(w.key, w.entry)
		if value == nil {
			dropped[i] = droppedUnsound
			continue
		}
		ttl := max(w.ttl-rand.N(w.ttl/10+1), time.Millisecond)
		replies[i], sizes[i] = pipe.Set(ctx, w.key.Name(), value, ttl), len(value)
	}
	failed := inBackground(ctx, func(ctx context.Context) error {
		_, err := pipe.Exec(ctx)
		return err
	})
	for i, reply := range replies {
		if reply == nil {
			continue
		}
		err := reply.Err()
		if err == nil && reply.Val() == "" { // the client panicked before it read the reply
			err = failed
		}
		if dropped[i] = s.whyDropped(ctx, err); dropped[i] == "" {
			s.metrics.written.Add(float64(sizes[i]))
		}
	}
	return dropped
}

// unwritable returns why nothing is written now, "" if it is.
func (s *Store) unwritable(ctx context.Context) (dropped string) {
	switch {
	case ctx.Err() != nil:
		return droppedStopped
	case s.asker.Away():
		return droppedAway
	case s.queue.isSuspended(s.now()):
		return droppedFull
	}
	return ""
}

// whyDropped returns why a write with this error is not stored, "" if it is.
func (s *Store) whyDropped(ctx context.Context, err error) (dropped string) {
	switch {
	case err == nil:
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
