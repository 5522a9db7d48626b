// Package eventloop is virtual time: a queue of events, and coroutines that wait for them. It
// implements [world.World], so that the gateway's own code runs in it.
//
// Everything runs in the goroutine that calls [Loop.Step]: an event is a function, or the place
// where a coroutine goes on. Events at the same time happen in the order in which they were planned.
// A coroutine is resumed by Step alone, never by another coroutine, so that what a coroutine does
// until it waits is one event, too.
package eventloop

import (
	"container/heap"
	"time"
)

// Epoch is the virtual time 0 of a [Loop] without a time before, as the gateway's code sees it: not the zero time, which means never.
var Epoch = time.Unix(1_800_000_000, 0)

// Loop is the queue of what will happen, and the time. The zero value is ready for use.
type Loop struct {
	Before time.Duration // what has passed since the Epoch when the loop starts

	now     time.Duration
	later   queue
	soon    []event // at this time, in the order of planning; all of later at this time comes before
	next    int     // of soon
	number  uint64
	running *coroutine
	alive   []*coroutine // that have begun and not returned
	ended   bool
}

// event is a function to be called, or a coroutine that goes on if it still waits for this.
type event struct {
	at     time.Duration
	number uint64
	do     func()
	who    *coroutine
	turn   uint64
}

// Elapsed is the virtual time since the begin.
func (l *Loop) Elapsed() time.Duration { return l.now }

// Now implements [world.World].
func (l *Loop) Now() time.Time { return Epoch.Add(l.Before + l.now) }

// At plans do for time t; a time that is over is now. do must not wait: who waits is a coroutine
// ([Loop.Go]).
func (l *Loop) At(t time.Duration, do func()) { l.plan(event{at: t, do: do}) }

// After plans do for d from now.
func (l *Loop) After(d time.Duration, do func()) { l.plan(event{at: l.now + d, do: do}) }

func (l *Loop) plan(e event) {
	l.number++
	e.number = l.number
	if e.at <= l.now {
		e.at = l.now
		l.soon = append(l.soon, e)
		return
	}
	heap.Push(&l.later, e)
}

// Step plays the next event; false says that there is none. A panic of a coroutine comes out of it
// as a *[PanicError].
func (l *Loop) Step() bool {
	switch {
	case len(l.later) > 0 && l.later[0].at <= l.now:
		l.play(heap.Pop(&l.later).(event))
	case l.next < len(l.soon):
		e := l.soon[l.next]
		l.soon[l.next] = event{} // what it holds is free to go
		if l.next++; l.next == len(l.soon) {
			l.soon, l.next = l.soon[:0], 0
		}
		l.play(e)
	case len(l.later) > 0:
		e := heap.Pop(&l.later).(event)
		l.now = e.at
		l.play(e)
	default:
		return false
	}
	return true
}

func (l *Loop) play(e event) {
	switch {
	case e.do != nil:
		e.do()
	case e.who.turn == e.turn:
		l.resume(e.who)
	}
}

// End ends the run: what is planned never happens, and every coroutine that waits gets an [ErrEnded]
// and goes on to its end. Who would wait from now on gets it at once.
func (l *Loop) End() {
	l.ended = true
	for len(l.alive) > 0 {
		who := l.alive[len(l.alive)-1]
		who.why = ErrEnded
		l.resume(who)
	}
	l.later, l.soon, l.next = nil, nil, 0
}

// Timer is an event that can be called off.
type Timer struct{ do func() }

// Timer plans do for d from now.
func (l *Loop) Timer(d time.Duration, do func()) *Timer {
	t := &Timer{do}
	l.After(d, t.fire)
	return t
}

func (t *Timer) fire() {
	if do := t.do; do != nil {
		t.do = nil
		do()
	}
}

// Stop calls the event off, and lets go of what it holds. It reports whether it was still to come.
func (t *Timer) Stop() bool {
	planned := t.do != nil
	t.do = nil
	return planned
}

// queue is a heap of events, the earliest first.
type queue []event

// Len implements [heap.Interface].
func (q *queue) Len() int { return len(*q) }

// Less implements [heap.Interface].
func (q *queue) Less(i, j int) bool {
	a, b := &(*q)[i], &(*q)[j]
	return a.at < b.at || a.at == b.at && a.number < b.number
}

// Swap implements [heap.Interface].
func (q *queue) Swap(i, j int) { (*q)[i], (*q)[j] = (*q)[j], (*q)[i] }

// Push implements [heap.Interface].
func (q *queue) Push(e any) { *q = append(*q, e.(event)) }

// Pop implements [heap.Interface].
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{} // what it holds is free to go
	*q = (*q)[:last]
	return e
}
