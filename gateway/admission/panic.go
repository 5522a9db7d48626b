package admission

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/foregate/foregate/panics"
)

// panicError is a panic on behalf of one request, caught where others look after the line, or a timer does.
type panicError string

func (e panicError) Error() string { return string(e) }

// Run tells of panics that are no request's, at most one a second, until ctx ends. It returns nil.
func (s *Queues) Run(ctx context.Context) error {
	panics.KeepRunning(ctx, func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case err := <-s.panicked:
			panic(err) // its pause keeps one that recurs from filling the log
		}
	})
	return nil
}

// serve lets in who has room. A panic ends the request that was looked at, so that the next look does not meet it
// again; who comes after it is looked at then. One that came while nobody was looked at is told by [Queues.Run].
// l.mu is held.
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
		default: // others wait to be told
		}
	}()
	l.queue.Serve(now)
}
