package admission

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/pool"
)

// pollInterval is how often those who wait are looked at although nothing was heard: room also
// comes by time, and so do the ends of waits.
const pollInterval = 50 * time.Millisecond

// Queues are the lines at the pools of a replica. They are safe for concurrent use.
type Queues struct {
	byPool atomic.Pointer[map[string]*lockedQueue] // never changed, only replaced
	waits  *prometheus.HistogramVec
}

// lockedQueue is a Queue with a lock and a timer.
type lockedQueue struct {
	mu      sync.Mutex
	queue   Queue
	timer   *time.Timer // runs while somebody waits
	polling bool        // it runs

	inside         atomic.Int64 // requests in Enter: without any, nobody need look
	serveRequested atomic.Bool  // somebody asked for a look that nobody has taken yet
}

// NewQueues makes a line for each pool. reg may be nil.
func NewQueues(pools []string, reg prometheus.Registerer) *Queues {
	s := &Queues{waits: newWaits(reg)}
	s.byPool.Store(&map[string]*lockedQueue{})
	s.SetPools(pools)
	if reg != nil {
		reg.MustRegister(s)
	}
	return s
}

// SetPools replaces the pools that have lines. The line of a pool that stays is kept. The caller removes a pool after its
// last request; one that waits there nevertheless is still let in, but sees free memory up to 50 ms late. Only one
// SetPools may run at a time.
func (q *Queues) SetPools(pools []string) {
	was := *q.byPool.Load()
	next := make(map[string]*lockedQueue, len(pools))
	for _, name := range pools {
		if next[name] = was[name]; next[name] == nil {
			l := &lockedQueue{queue: Queue{Pool: name}}
			l.timer = time.AfterFunc(time.Hour, l.tick)
			l.timer.Stop()
			next[name] = l
		}
	}
	q.byPool.Store(&next)
}

// line returns the line of a pool, nil if it has none.
func (q *Queues) line(pool string) *lockedQueue { return (*q.byPool.Load())[pool] }

// Enter waits until w may enter its pool, and returns what came of it: nil, an error of
// w.Try's, a *ShedError, or the context's cause when the caller has left. waited is 0 where
// it did not have to. A panic of w.Try's is Enter's, whoever called it.
func (q *Queues) Enter(ctx context.Context, poolName string, w *Ticket) (waited time.Duration, err error) {
	l := q.line(poolName)
	if l == nil {
		return 0, w.Try(pool.Admission{}) // not a pool of the configuration: nothing to keep order at
	}
	now := time.Now()
	w.Try = catching(w.Try)
	l.inside.Add(1)
	defer func() {
		l.inside.Add(-1)
		if p, ok := err.(panicError); ok {
			panic(string(p))
		}
	}()
	if l.enter(w, now) {
		return 0, w.err
	}
	select {
	case err = <-w.over:
	case <-ctx.Done():
		if l.leave(w) {
			return time.Since(now), context.Cause(ctx)
		}
		err = w.err // it was its turn just then; whoever it goes to hears of the leaving
	}
	waited = time.Since(now)
	q.waits.WithLabelValues(w.Class.String()).Observe(waited.Seconds())
	return waited, err
}

// panicError is a panic of a try, which the goroutine of another request or of a timer may call.
type panicError string

func (e panicError) Error() string { return string(e) }

// catching returns a try whose panic is an error of its request.
func catching(try func(pool.Admission) error) func(pool.Admission) error {
	return func(at pool.Admission) (err error) {
		defer func() {
			if what := recover(); what != nil {
				err = panicError(fmt.Sprintf("panic: %v\n%s", what, debug.Stack()))
			}
		}()
		return try(at)
	}
}

// Wake says that there may be more room at a pool. It is cheap where nobody waits, and
// never blocks.
func (q *Queues) Wake(poolName string) {
	if l := q.line(poolName); l != nil && l.inside.Load() > 0 {
		l.wake()
	}
}

// Shedding lists the classes that are shed at a pool for some route.
func (q *Queues) Shedding(poolName string) []identity.Priority {
	l := q.line(poolName)
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.unlock()
	return l.queue.shedClasses(time.Now())
}

// enter asks for w, and reports whether the answer is there already.
func (l *lockedQueue) enter(w *Ticket, now time.Time) bool {
	l.mu.Lock()
	defer l.unlock()
	l.queue.Enter(w, now)
	if !w.done {
		w.over = make(chan error, 1)
	}
	l.poll()
	return w.done
}

// leave takes w out, and reports whether nothing had come of it.
func (l *lockedQueue) leave(w *Ticket) bool {
	l.mu.Lock()
	defer l.unlock()
	l.queue.Leave(w)
	l.poll()
	return !w.done
}

// unlock takes the look that others asked for meanwhile.
func (l *lockedQueue) unlock() {
	l.mu.Unlock()
	if l.serveRequested.Load() {
		l.wake()
	}
}

// wake lets in who has room. Whoever holds the lock takes the look that others ask for:
// a try may give a place back, which wakes the line that it is tried for.
func (l *lockedQueue) wake() {
	l.serveRequested.Store(true)
	for l.serveRequested.Load() && l.mu.TryLock() {
		l.serveRequests()
	}
}

// serveRequests takes the looks that were asked for, and gives the lock back.
func (l *lockedQueue) serveRequests() {
	defer l.mu.Unlock()
	for l.serveRequested.Swap(false) {
		l.queue.Serve(time.Now())
	}
	l.poll()
}

// tick looks although nothing was heard.
func (l *lockedQueue) tick() {
	l.mu.Lock()
	defer l.unlock()
	l.polling = false
	l.queue.Serve(time.Now())
	l.poll()
}

// poll has the timer run while somebody waits. l.mu is held.
func (l *lockedQueue) poll() {
	if !l.polling && l.queue.Len() > 0 {
		l.polling = true
		l.timer.Reset(pollInterval)
	}
}
