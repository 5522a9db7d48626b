package admission

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/foregate/foregate/internal/panics"
)

// panicError is a panic for one request that was caught in the goroutine of another request or of a timer.
type panicError string

func (e panicError) Error() string { return string(e) }

// Run reports panics that belong to no request, at most one per second, until ctx ends. It returns nil.
func (s *Queues) Run(ctx context.Context) error {
	panics.KeepRunning(ctx, func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case err := <-s.panicked:
			panic(err) // the restart pause limits how often a repeated panic is logged
		}
	})
	return nil
}

// serve admits the requests that have capacity. A panic ends the request that was tried, so that the next
// pass does not repeat it, and continues with the next one. [Queues.Run] reports a panic while no request was
// tried. l.mu is held.
func (l *lockedQueue) serve(now time.Time) {
	defer func() {
		what := recover()
		if what == nil {
			return
		}
		if w := l.queue.current; w != nil {
			l.queue.Leave(w)
			l.queue.finish(w, panicError(fmt.Sprintf("panic: %v\n%s", what, debug.Stack())))
			return
		}
		select {
		case l.panicked <- fmt.Errorf("the line of pool %s: %v\n%s", l.queue.Pool, what, debug.Stack()):
		default: // others wait to be reported
		}
	}()
	l.queue.Serve(now)
}
