package gateway

import (
	"net/http"
	"sync"
	"time"
)

// writeGuard bounds one write of an answer over HTTP/2. With HTTP/1.1 the write deadline does it: it is looked at while
// something is written only. With HTTP/2 the write deadline is a timer that resets the stream when it is over, even if the
// answer only waits for its next token. So the guard's own timer runs during writes alone.
//
// A client that does not read one stream is sent a reset of that stream. If it takes nothing from the whole connection, the
// server closes that (see [maxBlocked]).
type writeGuard struct {
	reset func() // resets the stream

	mu    sync.Mutex
	timer *time.Timer // made at the first write
	until time.Time   // when the current write must have ended; zero: nothing is being written
}

// newWriteGuard returns the guard of a request's answer, nil for HTTP/1.1.
func newWriteGuard(rc *http.ResponseController, r *http.Request) *writeGuard {
	if r.ProtoMajor < 2 {
		return nil
	}
	return &writeGuard{reset: func() { _ = rc.SetWriteDeadline(time.Unix(1, 0)) }} // a deadline in the past resets it at once
}

// begin is called before each write, end after it.
func (g *writeGuard) begin(wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until = time.Now().Add(wait)
	if g.timer == nil {
		g.timer = time.AfterFunc(wait, g.expire)
		return
	}
	g.timer.Reset(wait)
}

// end returns when the guard does not use the request any more.
func (g *writeGuard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until = time.Time{}
	g.timer.Stop()
}

// expire is the timer's function. It does nothing if the write that it was set for has ended.
func (g *writeGuard) expire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.until.IsZero() || time.Now().Before(g.until) {
		return
	}
	g.until = time.Time{}
	g.reset()
}
