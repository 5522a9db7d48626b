// Package world provides what a request uses besides its engines: time, waiting, cancellation and background work. The
// gateway uses the operating system ([System]); the lab runs the same code in virtual time. Code on a request's path has
// no clock, timer, goroutine or channel of its own, so that both behave alike.
//
// No method may be called with a lock held: in the lab another request may run meanwhile.
package world

import (
	"context"
	"sync"
	"time"
)

// World is time, contexts and work beside a caller.
//
// Contexts end in this world's time. Their parents are contexts of the same world, or [context.Background]. context.Cause
// tells why one ended.
type World interface {
	// Now is the present time.
	Now() time.Time
	// Sleep waits for d. It returns nil, or the cause of ctx when that ended first.
	Sleep(ctx context.Context, d time.Duration) error

	// WithCancel is context.WithCancelCause.
	WithCancel(parent context.Context) (context.Context, context.CancelCauseFunc)
	// WithTimeout is context.WithTimeout.
	WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// WithDeadline is WithCancel, and ends at a time with the cause context.DeadlineExceeded; the zero time is none.
	WithDeadline(parent context.Context, at time.Time) (context.Context, context.CancelCauseFunc)
	// OnCancel is context.AfterFunc: do runs once when ctx has ended, unless stop came before.
	OnCancel(ctx context.Context, do func()) (stop func() bool)

	// Go runs task. The caller owns it: it bounds the number of tasks, recovers their panics and waits for their end.
	Go(task func())
	// NewSignal returns a signal that is not set.
	NewSignal() Signal
}

// Signal is an event that happens once and that many may wait for.
type Signal interface {
	// Set wakes all present and future waiters. Further calls do nothing.
	Set()
	// IsSet reports whether Set was called.
	IsSet() bool
	// Wait waits for Set. It returns nil, or the cause of ctx if that ended first; a signal that is set wins over an
	// ended context.
	Wait(ctx context.Context) error
}

// System is the world of the operating system.
type System struct{}

var _ World = System{}

// Now implements [World].
func (System) Now() time.Time { return time.Now() }

// Sleep implements [World].
func (System) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// WithCancel implements [World].
func (System) WithCancel(parent context.Context) (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(parent)
}

// WithTimeout implements [World].
func (System) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(parent, d)
}

// WithDeadline implements [World].
func (System) WithDeadline(parent context.Context, at time.Time) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	if at.IsZero() {
		return ctx, cancel
	}
	ctx, stop := context.WithDeadline(ctx, at)
	return ctx, func(cause error) {
		cancel(cause)
		stop()
	}
}

// OnCancel implements [World].
func (System) OnCancel(ctx context.Context, do func()) (stop func() bool) {
	return context.AfterFunc(ctx, do)
}

// Go implements [World].
func (System) Go(task func()) { go task() }

// NewSignal implements [World].
func (System) NewSignal() Signal { return &signal{done: make(chan struct{})} }

// signal is a channel that is closed once.
type signal struct {
	once sync.Once
	done chan struct{}
}

func (s *signal) Set() { s.once.Do(func() { close(s.done) }) }

func (s *signal) IsSet() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *signal) Wait(ctx context.Context) error {
	if s.IsSet() {
		return nil
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		if s.IsSet() {
			return nil
		}
		return context.Cause(ctx)
	}
}

// Fork returns a context for work that may outlive its request: it ends with ctx until release is called, after that
// with cancel only.
func Fork(ctx context.Context, w World) (forked context.Context, release func(), cancel context.CancelCauseFunc) {
	forked, cancel = w.WithCancel(context.WithoutCancel(ctx))
	stop := w.OnCancel(ctx, func() { cancel(context.Cause(ctx)) })
	return forked, func() { stop() }, cancel
}
