package eventloop

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"time"

	"github.com/foregate/foregate/tiers/world"
)

var _ world.World = (*Loop)(nil)

// ErrEnded is what who waits gets when the run ends.
var ErrEnded = errors.New("eventloop: the run has ended")

// PanicError is a panic of a coroutine.
type PanicError struct {
	Value any
	Stack []byte // of the coroutine, where it panicked
}

// Error implements error.
func (p *PanicError) Error() string {
	return fmt.Sprintf("panic in a coroutine: %v\n%s", p.Value, p.Stack)
}

// coroutine is a task that waits now and then.
type coroutine struct {
	step  func() (struct{}, bool) // goes on with it until it waits or returns
	yield func(struct{}) bool     // waits
	place int                     // in Loop.alive
	turn  uint64                  // counts its waits: who wakes it says which one it means
	why   error                   // of the wait that ended last; nil is that what it waited for came
	under *virtualContext         // that ends its wait; nil is none
	prev  *coroutine              // among those that wait under it
	next  *coroutine
	panic *PanicError
}

// Go implements [world.World]: task begins behind what goes on at this moment. When the run has
// ended it does not begin.
func (l *Loop) Go(task func()) {
	if l.ended {
		return
	}
	l.After(0, func() {
		who := &coroutine{place: len(l.alive)}
		who.step, _ = iter.Pull(func(yield func(struct{}) bool) {
			who.yield = yield
			who.run(task)
		})
		l.alive = append(l.alive, who)
		l.resume(who)
	})
}

// run keeps the stack of a panic, which would be lost on the way to who resumes it.
func (c *coroutine) run(task func()) {
	defer func() {
		if value := recover(); value != nil {
			c.panic = &PanicError{value, debug.Stack()}
		}
	}()
	task()
}

// resume goes on with a coroutine until it waits again or returns.
func (l *Loop) resume(who *coroutine) {
	if l.running != nil {
		panic("eventloop: a coroutine resumes another")
	}
	who.leave()
	who.turn++
	l.running = who
	_, more := who.step()
	l.running = nil
	if more {
		return
	}
	last := len(l.alive) - 1
	l.alive[who.place], l.alive[last].place = l.alive[last], who.place
	l.alive[last] = nil
	l.alive = l.alive[:last]
	if who.panic != nil {
		panic(who.panic)
	}
}

// waiting names one wait of a coroutine. The zero value is nobody's.
type waiting struct {
	who  *coroutine
	turn uint64
}

// begin names the wait that the running coroutine is about to begin by [Loop.wait].
func (l *Loop) begin() waiting {
	if l.running == nil {
		panic("eventloop: only a coroutine can wait")
	}
	return waiting{l.running, l.running.turn}
}

// wait waits until the running coroutine is woken. It returns nil, or the cause of ctx when that
// ended first.
func (l *Loop) wait(ctx context.Context) error {
	who := l.running
	under := l.virtual(ctx)
	switch {
	case l.ended:
		who.turn++ // nobody wakes it later from what it did not begin
		return ErrEnded
	case under != nil && under.over:
		who.turn++
		return context.Cause(under)
	case under != nil:
		who.enter(under)
	}
	who.why = nil
	who.yield(struct{}{})
	return who.why
}

// wake ends a wait, unless something else has ended it: the coroutine goes on behind what goes on at
// this moment.
func (l *Loop) wake(w waiting, why error) {
	if w.who == nil || w.who.turn != w.turn {
		return
	}
	w.who.leave()
	w.who.turn++
	w.who.why = why
	l.plan(event{at: l.now, who: w.who, turn: w.who.turn})
}

// Sleep implements [world.World].
func (l *Loop) Sleep(ctx context.Context, d time.Duration) error {
	w := l.begin()
	l.plan(event{at: l.now + d, who: w.who, turn: w.turn})
	return l.wait(ctx)
}

// Waiter lets one coroutine at a time wait for something that happens again and again.
type Waiter struct{ waiting waiting }

// Wait waits for the next Wake. It returns nil, or the cause of ctx when that ended first.
func (w *Waiter) Wait(ctx context.Context, l *Loop) error {
	w.waiting = l.begin()
	return l.wait(ctx)
}

// Wake ends the wait of who waits, if somebody does.
func (w *Waiter) Wake(l *Loop) {
	l.wake(w.waiting, nil)
	w.waiting = waiting{}
}

// NewSignal implements [world.World].
func (l *Loop) NewSignal() world.Signal { return &signal{loop: l} }

type signal struct {
	loop  *Loop
	isSet bool
	wait  []waiting
}

func (s *signal) Set() {
	s.isSet = true
	for _, w := range s.wait {
		s.loop.wake(w, nil)
	}
	s.wait = nil
}

func (s *signal) IsSet() bool { return s.isSet }

func (s *signal) Wait(ctx context.Context) error {
	if s.isSet {
		return nil
	}
	s.wait = append(s.wait, s.loop.begin())
	if err := s.loop.wait(ctx); err != nil && !s.isSet {
		return err
	}
	return nil
}
