package calls

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Why a call has no answer, beside what the call itself says.
var (
	ErrAway = errors.New("not asked: it does not answer of late")
	ErrBusy = errors.New("not asked: too many calls are under way")
	ErrLate = errors.New("no answer within the budget")
)

const (
	// MaxFailures are those in a row after which Redis is not asked for a while.
	MaxFailures = 5
	// pause is the time from one probe to the next, and up to half as long again, so that replicas do not come back
	// together, but all within the 1.2 s that a burst of requests is worth (gateway/ledger).
	pause = 700 * time.Millisecond
)

// Options are what a [Client] needs to know.
type Options struct {
	Budget   func() time.Duration // the longest wait for an answer, live
	Slots    int                  // calls in flight at most; what is beyond waits for its turn, which the budget includes
	IsAnswer func(error) bool     // whether an error is an answer, too, of a Redis that is well; nil: none is
	OnAway   func(error)          // told of the failure after which nobody asks any more, once for each time; nil: nobody
	Now      func() time.Time     // nil is time.Now
}

// Client makes calls to one Redis. Its methods are safe for concurrent use.
type Client struct {
	o     Options
	slots chan struct{} // of calls in flight
	away  atomic.Bool   // written under mu
	left  chan struct{} // Redis is left alone since now
	wake  chan struct{} // there is something to flush

	mu       sync.Mutex
	failures int // in a row
	probeAt  time.Time
}

// New returns a client.
func New(o Options) *Client {
	if o.IsAnswer == nil {
		o.IsAnswer = func(error) bool { return false }
	}
	if o.OnAway == nil {
		o.OnAway = func(error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Client{o: o, slots: make(chan struct{}, o.Slots), left: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

// Late is what becomes of a call that has no answer within the budget.
type Late[T any] struct {
	Extra  time.Duration            // how much longer the answer is waited for
	OnLate func(context.Context, T) // given an answer that came after [ErrLate], in the call's goroutine; nil drops it
}

// Do puts a call and waits for the answer, the budget at most: [ErrLate] then. While Redis does not answer it is not put
// at all, [ErrAway]; nor while too many are under way, [ErrBusy], which says nothing of Redis. The call's context has
// ctx's values, and is not cancelled with it; the call has deadlines of its own. One that panics has failed.
//
// Where ctx has a [Waited], what was waited before is taken off the budget; with nothing left the call is put all the
// same. That such a shorter wait is over says nothing of Redis: the result of its call does, when it comes.
func Do[T any](ctx context.Context, c *Client, call func(context.Context) (T, error), late Late[T]) (answer T, err error) {
	var none T
	if c.Away() {
		return none, ErrAway
	}
	waited, budget, began := waitedOf(ctx), c.o.Budget(), time.Now()
	wait := waited.remaining(budget)
	cut := wait < budget
	defer func() { waited.total.Add(int64(time.Since(began))) }()
	timer := time.NewTimer(wait + late.Extra)
	defer timer.Stop()
	select {
	case c.slots <- struct{}{}:
	default:
		select {
		case c.slots <- struct{}{}:
		case <-timer.C:
			return none, ErrBusy
		}
	}
	type outcome struct {
		answer T
		err    error
	}
	reply, left := make(chan outcome), make(chan struct{})
	detached := context.WithoutCancel(ctx)
	go func() {
		defer func() { <-c.slots }()
		var o outcome
		o.answer, o.err = recovered(func() (T, error) { return call(detached) })
		select {
		case reply <- o:
		case <-left:
			if late := time.Since(began) > budget; cut && o.err == nil && late {
				c.record(ErrLate)
			} else if cut {
				c.record(o.err)
			}
			if o.err == nil && late.OnLate != nil {
				_, _ = recovered(func() (T, error) { late.OnLate(detached, o.answer); return none, nil })
			}
		}
	}()
	select {
	case o := <-reply:
		c.record(o.err)
		return o.answer, o.err
	case <-timer.C:
		close(left)
		if !cut {
			c.record(ErrLate)
		}
		return none, ErrLate
	}
}

// recovered makes a panic an error: the client's, at what a server said.
func recovered[T any](do func() (T, error)) (answer T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return do()
}

// Bounded makes a call that no request waits for. One that panics has failed.
func Bounded(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := recovered(func() (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// record counts the result of a call for or against Redis.
func (c *Client) record(err error) {
	c.mu.Lock()
	good := err == nil || c.o.IsAnswer(err)
	if good {
		c.failures = 0
	} else {
		c.failures++
	}
	leaves := !good && c.failures >= MaxFailures && !c.away.Load()
	if leaves {
		c.away.Store(true)
		c.schedule()
	}
	c.mu.Unlock()
	if leaves {
		select {
		case c.left <- struct{}{}:
		default: // Run hears of the one before
		}
		c.o.OnAway(err)
	}
}

// schedule sets the time of the next probe; mu is held.
func (c *Client) schedule() { c.probeAt = c.o.Now().Add(pause + rand.N(pause/2)) }

// Away reports whether Redis is left alone.
func (c *Client) Away() bool { return c.away.Load() }

// The results of a call, as metrics name them.
const (
	ResultShared  = "shared"  // answered in time
	ResultLate    = "late"    // not within the budget
	ResultError   = "error"   // refused, or the connection failed
	ResultWrong   = "wrong"   // an answer that says nothing: Options.IsAnswer
	ResultBusy    = "busy"    // too many calls in progress
	ResultSkipped = "skipped" // Redis is left alone, so it was not called
)

// Results are all results.
var Results = []string{ResultShared, ResultLate, ResultError, ResultWrong, ResultBusy, ResultSkipped}

// Result names how a call of [Do] ended.
func (c *Client) Result(err error) string {
	switch {
	case err == nil:
		return ResultShared
	case errors.Is(err, ErrAway):
		return ResultSkipped
	case errors.Is(err, ErrBusy):
		return ResultBusy
	case errors.Is(err, ErrLate):
		return ResultLate
	case c.o.IsAnswer(err):
		return ResultWrong
	}
	return ResultError
}

const (
	// BackgroundTime bounds a round trip that no request waits for.
	BackgroundTime = 250 * time.Millisecond
	restTime       = time.Second // for calls in flight at the end
)

// Background is what the owner of a [Client] does in the background.
type Background struct {
	Flush func(context.Context)       // tells Redis what it must know; nil: nothing
	Pause time.Duration               // from [Client.Wake] to a flush
	Most  time.Duration               // from one flush to the next
	Probe func(context.Context) error // calls Redis as a request would
	Back  func(context.Context)       // is called when Redis answers again, before requests ask it
}

// Wake has [Client.Run] flush soon.
func (c *Client) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run flushes, and tries a Redis that is left alone, until ctx ends. Then it flushes once more, and waits for the calls in
// flight, a second at most.
func (c *Client) Run(ctx context.Context, b Background) {
	whole := context.WithoutCancel(ctx)
	if b.Flush == nil {
		b.Flush, b.Most = func(context.Context) {}, time.Hour
	}
	flush := time.NewTimer(b.Most)
	defer flush.Stop()
	try := time.NewTimer(c.untilProbe())
	defer try.Stop()
	for wake := c.wake; ; {
		select {
		case <-ctx.Done():
			b.Flush(whole)
			c.Drain(restTime)
			return
		case <-wake:
			wake = nil // more until then change nothing
			flush.Reset(b.Pause)
		case <-flush.C:
			wake = c.wake
			b.Flush(whole)
			flush.Reset(b.Most)
		case <-c.left:
			try.Reset(c.untilProbe())
		case <-try.C:
			if c.Away() {
				c.probe(whole, b)
				try.Reset(c.untilProbe())
			}
		}
	}
}

// probe has Redis asked again after a good try, or left alone for another pause. A good try is as a request's call would be,
// and in time. It tries twice, because the first try must open a connection.
func (c *Client) probe(ctx context.Context, b Background) {
	good := c.answers(ctx, b.Probe)
	if good {
		began := c.o.Now()
		good = c.answers(ctx, b.Probe) && c.o.Now().Sub(began) <= c.o.Budget()
	}
	if good {
		b.Back(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !good {
		c.schedule()
		return
	}
	c.failures = 0
	c.away.Store(false)
}

// answers reports whether Redis answers a call in the background.
func (c *Client) answers(ctx context.Context, call func(context.Context) error) bool {
	err := Bounded(ctx, BackgroundTime, call)
	return err == nil || c.o.IsAnswer(err)
}

// untilProbe is the time until a Redis that is left alone should be tried again.
func (c *Client) untilProbe() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.probeAt.Sub(c.o.Now())
}

// Drain waits for the calls in flight, no longer than atMost. Later ones are [ErrBusy].
func (c *Client) Drain(atMost time.Duration) {
	deadline := time.NewTimer(atMost)
	defer deadline.Stop()
	for range cap(c.slots) {
		select {
		case c.slots <- struct{}{}:
		case <-deadline.C:
			return
		}
	}
}

// Waited is how long one request has waited for Redis so far. Each [Client] takes it off its own budget, so that all
// waits of the request together are no longer than the longest budget. The zero value has waited for nothing.
type Waited struct{ total atomic.Int64 } // ns

type waitedKey struct{}

// WithWaited makes the calls of a context share one Waited.
func WithWaited(ctx context.Context, p *Waited) context.Context {
	return context.WithValue(ctx, waitedKey{}, p)
}

// waitedOf is a context's, or one of its own.
func waitedOf(ctx context.Context) *Waited {
	if p, ok := ctx.Value(waitedKey{}).(*Waited); ok {
		return p
	}
	return &Waited{}
}

// remaining is what it leaves of a budget.
func (w *Waited) remaining(budget time.Duration) time.Duration {
	return max(0, budget-time.Duration(w.total.Load()))
}
