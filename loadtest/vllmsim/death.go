package vllmsim

import (
	"net/http"
	"sync"
)

// finishDead ends a choice whose engine died. It never goes over the wire: JSON answers turn into a 500, streams into an
// error event.
const finishDead = "dead"

var (
	errDead = &apiError{status: http.StatusInternalServerError, kind: kindInternal,
		message: "EngineCore encountered an issue. See stack trace (above) for the root cause."}
	errBusy = &apiError{status: http.StatusServiceUnavailable, kind: "Service Unavailable",
		message: "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."}
)

// limits are what a server of v0.29 and later takes in before it answers 503 (vLLM PR 49445); 0 is no limit.
type limits struct{ requests, tokens int }

// full reports whether one more request is too many: it would be the inFlight-th at once, and prefill prompt tokens are
// before it.
func (l limits) full(inFlight, prefill int) bool {
	return l.requests > 0 && inFlight > l.requests || l.tokens > 0 && prefill >= l.tokens
}

// load is what a server has in hand, in all its engines: the limits are the API server's, and so they count across them.
type load struct {
	limits limits

	mu       sync.Mutex
	requests int
	prefill  int // prompt tokens of the jobs that have no output yet
}

// full reports whether a request of n choices is too many.
func (l *load) full(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limits.full(l.requests+n, l.prefill)
}

// take counts jobs in, all of them or none.
func (l *load) take(jobs []*job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	queued := l.prefill
	for i, j := range jobs {
		if l.limits.full(l.requests+i+1, queued) {
			return false
		}
		queued += len(j.seq.Prompt)
	}
	for _, j := range jobs {
		j.counted = true
	}
	l.prefill = queued
	l.requests += len(jobs)
	return true
}

// start notes that a job's prefill is over, one way or the other.
func (l *load) start(j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.markStarted(j)
}

func (l *load) markStarted(j *job) {
	if j.counted && !j.started {
		l.prefill -= len(j.seq.Prompt)
	}
	j.started = true
}

// leave counts a job out.
func (l *load) leave(j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.markStarted(j)
	if j.counted {
		j.counted = false
		l.requests--
	}
}

// news is a death that clients learn of.
type news struct {
	once    sync.Once
	noticed chan struct{} // closed when one has
}

func newNews() *news { return &news{noticed: make(chan struct{})} }

// kill makes the engine die before its next step.
func (e *engine) kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.killed && e.closed == "" {
		e.killed = true
		close(e.stop)
	}
}

// dead reports whether the engine has died.
func (e *engine) dead() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed == finishDead
}

// outOfMemory reports whether a full cache or a deadly request killed the engine.
func (e *engine) outOfMemory() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sched.Dead()
}

// end ends every request that is still there, and from now on every one that comes.
func (e *engine) end(finish string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed != finishDead { // nothing revives it
		e.closed = finish
	}
	n := len(e.jobs)
	for q, j := range e.jobs {
		e.sched.Abort(q)
		e.totals.aborted++
		if finish == finishAbort {
			e.met.success[finishAbort].Inc()
		}
		j.box.push(lastEvent(j, finish))
		e.load.leave(j)
	}
	clear(e.jobs)
	e.met.levels(e.sched.Counts())
	e.tell(n)
}

// tell notes that n clients have learnt of the death.
func (e *engine) tell(n int) {
	if e.closed == finishDead && n > 0 {
		e.news.once.Do(func() { close(e.news.noticed) })
	}
}
