// Package panics prevents that a panic of a background goroutine ends the process. The owner of loops
// registers with [OnPanic] a function that is told of their panics. Goroutines of a loop run under
// [KeepRunning], or defer [Recover].
package panics

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// pause is the time between a panic and the restart of its goroutine.
const pause = time.Second

type watched struct{}

// OnPanic returns a context whose goroutines report their panics to told, which must be safe for concurrent
// use.
func OnPanic(ctx context.Context, handler func(error)) context.Context {
	return context.WithValue(ctx, watched{}, handler)
}

// Recover must be deferred at the start of a goroutine. It reports a panic to the function of the context and
// stops it.
func Recover(ctx context.Context) {
	what := recover()
	if what == nil {
		return
	}
	if handler, ok := ctx.Value(watched{}).(func(error)); ok {
		handler(fmt.Errorf("panic: %v\n%s", what, debug.Stack()))
	}
}

// KeepRunning calls work until it returns without a panic, again one second after each panic, but not after
// ctx has ended.
func KeepRunning(ctx context.Context, work func(context.Context)) {
	for !once(ctx, work) {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// once reports whether the work returned.
func once(ctx context.Context, work func(context.Context)) (returned bool) {
	defer Recover(ctx)
	work(ctx)
	return true
}
