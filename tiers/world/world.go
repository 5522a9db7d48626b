// Package world is what a request touches beside its engines: time, waiting, cancellation and
// work in the background. The gateway runs in the system's world ([System]); the lab runs the same
// code in virtual time. Code that can be reached from a request uses no clock, timer, goroutine or
// channel of its own, so that both run alike.
//
// No call of a World may be made with a lock held: in the lab another request may go on meanwhile.
package world

import (
	"context"
	"sync"
	"time"
)

// World is all of it.
type World interface {
	Clock
	Contexts
	Spawner
}

// Clock is the time.
type Clock interface {
	// Now is the present time.
	Now() time.Time
	// Sleep waits for d. It returns nil, or the cause of ctx when that ended first.
	Sleep(ctx context.Context, d time.Duration) error
}

// Contexts makes contexts that end in this world's time. Their parents are contexts of the same
// world, or [context.Background]. context.Cause tells why one ended.
type Contexts interface {
	// WithCancel is context.WithCancelCause.
	WithCancel(parent context.Context) (context.Context, context.CancelCauseFunc)
	// WithTimeout is context.WithTimeout.
	WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// OnCancel is context.AfterFunc: do runs once when ctx has ended, unless stop came before.
	OnCancel(ctx context.Context, do func()) (stop func() bool)
}

// Spawner starts work that goes on beside its caller.
type Spawner interface {
	// Go runs task. Whoever calls it owns the task: it bounds how many there are, recovers their
	// panics and waits for their end.
	Go(task func())
	// NewSignal makes a signal that nobody has given yet.
	NewSignal() Signal
}

// Signal is an event that happens once, and that many may wait for.
type Signal interface {
	// Set tells all who wait, and all who will. Further calls do nothing.
	Set()
	// IsSet reports whether it was given.
	IsSet() bool
	// Wait waits until it is given. It returns nil, or the cause of ctx when that ended first; a
	// signal that was given wins over a context that has ended.
	Wait(ctx context.Context) error
}

// System is the world of the operating system.
type System struct{}

var _ World = System{}

// Now implements [Clock].
func (System) Now() time.Time { return time.Now() }

// Sleep implements [Clock].
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

// WithCancel implements [Contexts].
func (System) WithCancel(parent context.Context) (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(parent)
}

// WithTimeout implements [Contexts].
func (System) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(parent, d)
}

// OnCancel implements [Contexts].
func (System) OnCancel(ctx context.Context, do func()) (stop func() bool) {
	return context.AfterFunc(ctx, do)
}

// Go implements [Spawner].
func (System) Go(task func()) { go task() }

// NewSignal implements [Spawner].
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

// Fork is a context for work that may outlive the one who asked for it: it ends with ctx until
// release is called, and from then on with cancel alone.
func Fork(ctx context.Context, w Contexts) (forked context.Context, release func(), cancel context.CancelCauseFunc) {
	forked, cancel = w.WithCancel(context.WithoutCancel(ctx))
	stop := w.OnCancel(ctx, func() { cancel(context.Cause(ctx)) })
	return forked, func() { stop() }, cancel
}
