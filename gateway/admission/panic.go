package admission

import (
	"fmt"
	"runtime/debug"
	"time"
)

// panicError is a panic on behalf of one request, caught where others look after the line, or a timer does.
type panicError string

func (e panicError) Error() string { return string(e) }

// serve lets in who has room. A panic ends the request that was looked at, so that the next look does not meet it
// again; who comes after it is looked at then. l.mu is held.
func (l *line) serve(now time.Time) {
	defer func() {
		what := recover()
		if w := l.line.serving; what != nil && w != nil {
			l.line.Leave(w)
			w.Done(panicError(fmt.Sprintf("panic: %v\n%s", what, debug.Stack())))
		}
	}()
	l.line.Serve(now)
}
