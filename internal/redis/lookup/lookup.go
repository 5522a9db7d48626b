// Package lookup asks Redis a question that a request waits for: no longer than its budget, without
// cutting the command off, and not at all while Redis does not answer.
//
// Start at [New] and [Ask]. A deadline on the command itself would close its connection, and a
// Redis that is a little late would see nothing but new ones; so the question runs in a
// goroutine of its own, to its own end, and only the wait for it is cut short. Whoever owns an
// [Asker] tries a Redis that is away in the background ([Asker.Due], [Asker.Tried]): requests
// never find out for others.
package lookup

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Why a question has no answer, beside what the question itself says.
var (
	ErrAway = errors.New("not asked: it does not answer of late")
	ErrBusy = errors.New("not asked: too many questions are under way")
	ErrLate = errors.New("no answer within the budget")
)

// Options are what an [Asker] needs to know.
type Options struct {
	Budget func() time.Duration // the longest wait for an answer, live
	Slots  int                  // questions under way at most; what is beyond is ErrBusy,
	Wait   bool                 // or waits for its turn, which the budget includes
	Well   func(error) bool     // whether an error is an answer, too, of a Redis that is well; nil: none is
	Closed func(error)          // told of the failure after which nobody asks any more, once for each time
	Now    func() time.Time     // nil is time.Now
}

// Asker asks one Redis. Its methods are safe for concurrent use.
type Asker struct {
	budget func() time.Duration
	well   func(error) bool
	closed func(error)
	now    func() time.Time
	slots  chan struct{} // of questions under way
	wait   bool          // for one
	guard  guard
}

// New returns an asker that asks.
func New(o Options) *Asker {
	a := &Asker{budget: o.Budget, well: o.Well, closed: o.Closed, now: o.Now, slots: make(chan struct{}, o.Slots), wait: o.Wait}
	if a.well == nil {
		a.well = func(error) bool { return false }
	}
	if a.closed == nil {
		a.closed = func(error) {}
	}
	if a.now == nil {
		a.now = time.Now
	}
	return a
}

// The fates of a question, between who asks and who waits.
const (
	open int32 = iota
	answered
	left
)

// outcome is what came of a question.
type outcome[T any] struct {
	fate   atomic.Int32
	done   chan struct{} // closed once it is answered
	cut    bool          // who asks waits for less than the asker's budget
	answer T
	err    error
}

// Ask puts a question and waits for the answer, the budget at most: [ErrLate] then. While Redis does not answer it is not
// put at all, [ErrAway]; nor while too many are under way, [ErrBusy], which says nothing of Redis. The question's context has ctx's values, and
// is not cancelled with it; the question has deadlines of its own. One that panics has failed.
//
// Where ctx has a [Patience], what was waited before is taken off the budget; with nothing left the question is put all the
// same. A wait that was cut short says nothing of Redis: its answer does, when it comes.
func Ask[T any](ctx context.Context, a *Asker, question func(context.Context) (T, error)) (T, error) {
	return AskOrLeave(ctx, a, question, nil)
}

// AskOrLeave is [Ask] for a question whose answer must not be lost: unheard is given what came after [ErrLate] was
// returned, in the question's goroutine. nil drops it.
func AskOrLeave[T any](ctx context.Context, a *Asker, question func(context.Context) (T, error), unheard func(context.Context, T)) (T, error) {
	return AskWith(ctx, a, question, Late[T]{Unheard: unheard})
}

// Late is what becomes of a question that has no answer within the budget.
type Late[T any] struct {
	Longer  func() time.Duration     // asked then: how much longer the answer is waited for; nil and 0 are not at all
	Unheard func(context.Context, T) // as of AskOrLeave
}

// AskWith is [AskOrLeave] for a question that may be worth a longer wait than the budget. That it is late counts
// as a failure when the budget is over, and as an answer when it has come.
func AskWith[T any](ctx context.Context, a *Asker, question func(context.Context) (T, error), late Late[T]) (T, error) {
	var none T
	if a.Away() {
		return none, ErrAway
	}
	patience, budget, began := patienceOf(ctx), a.budget(), time.Now()
	defer func() { patience.spend(time.Since(began)) }()
	wait := patience.left(budget)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	if !a.enter(timer) {
		return none, ErrBusy
	}
	o := &outcome[T]{done: make(chan struct{}), cut: wait < budget}
	detached := context.WithoutCancel(ctx)
	go func() {
		defer func() { <-a.slots }()
		if o.run(detached, question) {
			return
		}
		if o.cut {
			a.judge(o.err, time.Since(began) > budget)
		}
		if o.err == nil && late.Unheard != nil {
			o.tell(detached, late.Unheard)
		}
	}()
	heard := o.wait(timer, func() time.Duration {
		if !o.cut {
			a.failed(ErrLate)
		}
		if late.Longer == nil {
			return 0
		}
		return late.Longer()
	})
	if !heard {
		return none, ErrLate
	}
	a.judge(o.err, false)
	return o.answer, o.err
}

// wait reports whether the answer came within the timer's time, or within what longer adds once that is over.
func (o *outcome[T]) wait(timer *time.Timer, longer func() time.Duration) bool {
	select {
	case <-o.done:
		return true
	case <-timer.C:
	}
	if o.fate.Load() == open {
		if more := longer(); more > 0 {
			timer.Reset(more)
			select {
			case <-o.done:
				return true
			case <-timer.C:
			}
		}
	}
	if o.fate.CompareAndSwap(open, left) {
		return false
	}
	<-o.done // it came at this moment
	return true
}

// judge counts an answer for or against Redis.
func (a *Asker) judge(err error, late bool) {
	switch {
	case err != nil && !a.well(err):
		a.failed(err)
	case late:
		a.failed(ErrLate)
	default:
		a.guard.answered(a.now())
	}
}

// enter takes a slot.
func (a *Asker) enter(budget *time.Timer) bool {
	select {
	case a.slots <- struct{}{}:
		return true
	default:
	}
	if !a.wait {
		return false
	}
	select {
	case a.slots <- struct{}{}:
		return true
	case <-budget.C:
		return false
	}
}

// run answers the question, and reports whether who asked still waits for that.
func (o *outcome[T]) run(ctx context.Context, question func(context.Context) (T, error)) bool {
	o.answer, o.err = unbroken(ctx, question)
	heard := o.fate.CompareAndSwap(open, answered)
	if heard {
		close(o.done)
	}
	return heard
}

// tell gives the answer to unheard; of a panic nobody is left to be told.
func (o *outcome[T]) tell(ctx context.Context, unheard func(context.Context, T)) {
	_, _ = unbroken(ctx, func(ctx context.Context) (struct{}, error) {
		unheard(ctx, o.answer)
		return struct{}{}, nil
	})
}

// unbroken makes a panic an error: the client's, at what a server said.
func unbroken[T any](ctx context.Context, question func(context.Context) (T, error)) (answer T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return question(ctx)
}

// failed counts a failure, and tells of it when it was the last that anybody waits for.
func (a *Asker) failed(err error) {
	if a.guard.failed(a.now()) {
		a.closed(err)
	}
}

// Away reports whether Redis is left alone.
func (a *Asker) Away() bool { return a.guard.away.Load() }

// Due reports whether a Redis that is left alone should be tried again, in the background.
func (a *Asker) Due() bool { return a.guard.due(a.now()) }

// Tried opens the way after a good try, or has Redis left alone for another pause. A good try is as a
// request's question would be, and in time.
func (a *Asker) Tried(good bool) { a.guard.tried(good, a.now()) }

// UnderWay is how many questions are.
func (a *Asker) UnderWay() int { return len(a.slots) }

// Rest waits for the questions under way, no longer than atMost. Later ones are [ErrBusy].
func (a *Asker) Rest(atMost time.Duration) {
	deadline := time.NewTimer(atMost)
	defer deadline.Stop()
	for range cap(a.slots) {
		select {
		case a.slots <- struct{}{}:
		case <-deadline.C:
			return
		}
	}
}
