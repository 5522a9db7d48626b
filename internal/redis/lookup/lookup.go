// Package lookup makes calls to Redis that a request waits for: no longer than its budget, without
// cutting the command off, and not at all while Redis does not answer.
//
// Start at [New] and [Do]. A deadline on the command itself would close its connection, and a
// Redis that is a little late would see nothing but new ones. So the call runs in a
// goroutine of its own to its end, and only the wait for it is cut short. The owner of a
// [Client] probes a Redis that is away in the background ([Client.ProbeDue], [Client.Probed]): requests
// never find out for others.
package lookup

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Why a call has no answer, beside what the call itself says.
var (
	ErrAway = errors.New("not asked: it does not answer of late")
	ErrBusy = errors.New("not asked: too many calls are under way")
	ErrLate = errors.New("no answer within the budget")
)

// Options are what a [Client] needs to know.
type Options struct {
	Budget   func() time.Duration // the longest wait for an answer, live
	Slots    int                  // calls in flight at most; what is beyond is ErrBusy,
	Wait     bool                 // or waits for its turn, which the budget includes
	IsAnswer func(error) bool     // whether an error is an answer, too, of a Redis that is well; nil: none is
	OnAway   func(error)          // told of the failure after which nobody asks any more, once for each time
	Now      func() time.Time     // nil is time.Now
}

// Client makes calls to one Redis. Its methods are safe for concurrent use.
type Client struct {
	budget   func() time.Duration
	isAnswer func(error) bool
	onAway   func(error)
	now      func() time.Time
	slots    chan struct{} // of calls in flight
	wait     bool          // for one
	health   health
}

// New returns a client.
func New(o Options) *Client {
	a := &Client{budget: o.Budget, isAnswer: o.IsAnswer, onAway: o.OnAway, now: o.Now, slots: make(chan struct{}, o.Slots), wait: o.Wait}
	if a.isAnswer == nil {
		a.isAnswer = func(error) bool { return false }
	}
	if a.onAway == nil {
		a.onAway = func(error) {}
	}
	if a.now == nil {
		a.now = time.Now
	}
	return a
}

// The fates of a call, between who asks and who waits.
const (
	waiting int32 = iota
	answered
	abandoned
)

// outcome is what came of a call.
type outcome[T any] struct {
	fate   atomic.Int32
	done   chan struct{} // closed once it is answered
	cut    bool          // who asks waits for less than the client's budget
	answer T
	err    error
}

// Do puts a call and waits for the answer, the budget at most: [ErrLate] then. While Redis does not answer it is not
// put at all, [ErrAway]; nor while too many are under way, [ErrBusy], which says nothing of Redis. The call's context has ctx's values, and
// is not cancelled with it; the call has deadlines of its own. One that panics has failed.
//
// Where ctx has a [Waited], what was waited before is taken off the budget; with nothing left the call is put all the
// same. A wait that was cut short says nothing of Redis: its answer does, when it comes.
func Do[T any](ctx context.Context, a *Client, call func(context.Context) (T, error)) (T, error) {
	return DoOrLeave(ctx, a, call, nil)
}

// DoOrLeave is [Do] for a call whose answer must not be lost: unheard is given what came after [ErrLate] was
// returned, in the call's goroutine. nil drops it.
func DoOrLeave[T any](ctx context.Context, a *Client, call func(context.Context) (T, error), unheard func(context.Context, T)) (T, error) {
	return DoWith(ctx, a, call, Late[T]{OnLate: unheard})
}

// Late is what becomes of a call that has no answer within the budget.
type Late[T any] struct {
	Extend func() time.Duration     // asked then: how much longer the answer is waited for; nil and 0 are not at all
	OnLate func(context.Context, T) // as of DoOrLeave
}

// DoWith is [DoOrLeave] for a call that may be worth a longer wait than the budget. That it is late counts
// as a failure when the budget is over, and as an answer when it has come.
func DoWith[T any](ctx context.Context, a *Client, call func(context.Context) (T, error), late Late[T]) (T, error) {
	var none T
	if a.Away() {
		return none, ErrAway
	}
	waited, budget, began := waitedOf(ctx), a.budget(), time.Now()
	defer func() { waited.add(time.Since(began)) }()
	wait := waited.remaining(budget)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	if !a.acquire(timer) {
		return none, ErrBusy
	}
	o := &outcome[T]{done: make(chan struct{}), cut: wait < budget}
	detached := context.WithoutCancel(ctx)
	go func() {
		defer func() { <-a.slots }()
		if o.run(detached, call) {
			return
		}
		if o.cut {
			a.record(o.err, time.Since(began) > budget)
		}
		if o.err == nil && late.OnLate != nil {
			o.tell(detached, late.OnLate)
		}
	}()
	gotReply := o.wait(timer, func() time.Duration {
		if !o.cut {
			a.failed(ErrLate)
		}
		if late.Extend == nil {
			return 0
		}
		return late.Extend()
	})
	if !gotReply {
		return none, ErrLate
	}
	a.record(o.err, false)
	return o.answer, o.err
}

// wait reports whether the answer came within the timer's time, or within what longer adds once that is over.
func (o *outcome[T]) wait(timer *time.Timer, longer func() time.Duration) bool {
	select {
	case <-o.done:
		return true
	case <-timer.C:
	}
	if o.fate.Load() == waiting {
		if more := longer(); more > 0 {
			timer.Reset(more)
			select {
			case <-o.done:
				return true
			case <-timer.C:
			}
		}
	}
	if o.fate.CompareAndSwap(waiting, abandoned) {
		return false
	}
	<-o.done // it came at this moment
	return true
}

// record counts an answer for or against Redis.
func (a *Client) record(err error, late bool) {
	switch {
	case err != nil && !a.isAnswer(err):
		a.failed(err)
	case late:
		a.failed(ErrLate)
	default:
		a.health.answered(a.now())
	}
}

// acquire takes a slot.
func (a *Client) acquire(budget *time.Timer) bool {
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

// run answers the call, and reports whether who asked still waits for that.
func (o *outcome[T]) run(ctx context.Context, call func(context.Context) (T, error)) bool {
	o.answer, o.err = recoverPanic(ctx, call)
	gotReply := o.fate.CompareAndSwap(waiting, answered)
	if gotReply {
		close(o.done)
	}
	return gotReply
}

// tell gives the answer to unheard; of a panic nobody is left to be told.
func (o *outcome[T]) tell(ctx context.Context, unheard func(context.Context, T)) {
	_, _ = recoverPanic(ctx, func(ctx context.Context) (struct{}, error) {
		unheard(ctx, o.answer)
		return struct{}{}, nil
	})
}

// recoverPanic makes a panic an error: the client's, at what a server said.
func recoverPanic[T any](ctx context.Context, call func(context.Context) (T, error)) (answer T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return call(ctx)
}

// failed counts a failure, and tells of it when it was the last that anybody waits for.
func (a *Client) failed(err error) {
	if a.health.failed(a.now()) {
		a.onAway(err)
	}
}

// Away reports whether Redis is left alone.
func (a *Client) Away() bool { return a.health.away.Load() }

// ProbeDue reports whether a Redis that is left alone should be tried again, in the background.
func (a *Client) ProbeDue() bool { return a.health.probeDue(a.now()) }

// Probed opens the way after a good try, or has Redis left alone for another pause. A good try is as a
// request's call would be, and in time.
func (a *Client) Probed(good bool) { a.health.probed(good, a.now()) }

// InFlight is how many calls are.
func (a *Client) InFlight() int { return len(a.slots) }

// Drain waits for the calls in flight, no longer than atMost. Later ones are [ErrBusy].
func (a *Client) Drain(atMost time.Duration) {
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
