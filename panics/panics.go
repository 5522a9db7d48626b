// Package panics keeps a panic of a background goroutine from ending the process. Who starts loops says with [Watch] who
// is told of their panics; what a loop starts runs under [Keep], or defers [Caught].
package panics

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// pause is how long after a panic a goroutine is started again.
const pause = time.Second

type watched struct{}

// OnPanic returns a context whose goroutines tell of their panics. told may be called by several at once.
func OnPanic(ctx context.Context, told func(error)) context.Context {
	return context.WithValue(ctx, watched{}, told)
}

// Recover is deferred where a goroutine begins: its panic is told to who watches the context, and goes no further.
func Recover(ctx context.Context) {
	what := recover()
	if what == nil {
		return
	}
	if told, ok := ctx.Value(watched{}).(func(error)); ok {
		told(fmt.Errorf("panic: %v\n%s", what, debug.Stack()))
	}
}

// KeepRunning runs a goroutine's work until it returns, again a second after each panic, and not after ctx has ended.
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
