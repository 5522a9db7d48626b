// Package panics prevents that a panic of a background goroutine ends the process. Loops ([Every]) run under [Supervise]
// or [KeepRunning], which start them again after growing pauses; goroutines of a loop defer [Recover]. Who runs
// loops registers with [OnPanic] a function that is told of panics.
package panics

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

const (
	// minPause and maxPause bound the time between the end of a loop and its next start. It doubles each time.
	minPause, maxPause = time.Second, 30 * time.Second
	// healthy is how long a loop must have run for its next pause to be the shortest again.
	healthy = time.Minute
)

// Error is a panic that was recovered.
type Error struct {
	Value any
	Stack []byte
}

func (e *Error) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

type watched struct{}

// OnPanic returns a context whose goroutines report their panics to handler, each as an [*Error]. handler must be safe
// for concurrent use.
func OnPanic(ctx context.Context, handler func(error)) context.Context {
	return context.WithValue(ctx, watched{}, handler)
}

// Recover must be deferred at the start of a goroutine. It reports a panic to the function of the context and
// stops it.
func Recover(ctx context.Context) {
	if what := recover(); what != nil {
		report(ctx, &Error{what, debug.Stack()})
	}
}

func report(ctx context.Context, e *Error) {
	if handler, ok := ctx.Value(watched{}).(func(error)); ok {
		handler(e)
	}
}

// Supervise calls work until it returns nil or ctx ends. After an error or a panic it pauses and calls work again;
// failed, which may be nil, is told of each error before the pause. Panics are reported to the function of the context.
func Supervise(ctx context.Context, work func(context.Context) error, failed func(err error, pause time.Duration)) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		began := time.Now()
		panicked, err := once(ctx, work)
		if panicked != nil {
			report(ctx, panicked)
			err = fmt.Errorf("panic: %v", panicked.Value)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		if time.Since(began) >= healthy {
			pause = minPause
		}
		if failed != nil {
			failed(err, pause)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// KeepRunning is Supervise for work that cannot fail but by a panic.
func KeepRunning(ctx context.Context, work func(context.Context)) {
	Supervise(ctx, func(ctx context.Context) error { work(ctx); return nil }, nil)
}

// Every calls work at once, and again each time that pause has passed since it returned, or wake, which may be nil, has something,
// until ctx ends.
func Every(ctx context.Context, pause time.Duration, wake <-chan struct{}, work func()) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-wake:
		}
		work()
		timer.Reset(pause)
	}
}

func once(ctx context.Context, work func(context.Context) error) (panicked *Error, err error) {
	defer func() {
		if what := recover(); what != nil {
			panicked = &Error{what, debug.Stack()}
		}
	}()
	return nil, work(ctx)
}
