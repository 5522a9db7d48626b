package vllmsim

import (
	"net/http"
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
	for q, j := range e.jobs {
		e.sched.Abort(q)
		e.totals.aborted++
		if finish == finishAbort {
			e.met.ended(finishAbort)
		}
		j.box.push(lastEvent(j, finish))
	}
	clear(e.jobs)
	e.met.levels(e.sched.Counts())
}
