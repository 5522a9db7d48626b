package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// errLate ends a request whose engine sends nothing in time.
var errLate = errors.New("no bytes of a response in time")

// watchdog ends a request if a wait for the engine takes too long. Its timer only runs while the exchange waits: what the
// reader takes between two reads is not the engine's.
type watchdog struct {
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	timer  *time.Timer   // made by the first bounded wait
	wait   time.Duration // bound of the reads to come, from the first of them; 0 is none or begun
	until  time.Time     // bound of the current ones; zero is none
}

// watch bounds a request that begins now. wait bounds the time until the whole response is read, or until restart is
// called; 0 is no bound.
func (w *watchdog) watch(ctx context.Context, wait time.Duration) {
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	if wait > 0 {
		w.until = time.Now().Add(wait)
	}
}

// restart bounds the time of the following reads together, counted from the beginning of the first. 0 is no bound.
func (w *watchdog) restart(wait time.Duration) { w.wait, w.until = wait, time.Time{} }

// begin is called before each wait, end after it.
func (w *watchdog) begin() {
	if w.wait > 0 {
		w.until, w.wait = time.Now().Add(w.wait), 0
	}
	switch {
	case w.until.IsZero():
	case w.timer == nil:
		w.timer = time.AfterFunc(time.Until(w.until), func() { w.cancel(errLate) })
	default:
		w.timer.Reset(time.Until(w.until))
	}
}

// end returns err, or errLate if the wait was too long.
func (w *watchdog) end(err error) error {
	if w.timer != nil {
		w.timer.Stop()
	}
	if err != nil && err != io.EOF && errors.Is(context.Cause(w.ctx), errLate) {
		return errLate
	}
	return err
}

// response is what an engine answered.
type response struct {
	*http.Response
	reused bool // the connection had served an earlier request; also set if the exchange failed
	watch  watchdog
}

// Read reads the body, within the bound of the wait.
func (r *response) Read(p []byte) (int, error) {
	r.watch.begin()
	n, err := r.Body.Read(p)
	return n, r.watch.end(err)
}

// close ends the request. The connection is kept if the body was read to its end.
func (r *response) close() {
	if r.watch.cancel != nil {
		r.watch.cancel(context.Canceled)
	}
	if r.Response != nil {
		_ = r.Body.Close() // errors of an abandoned body do not matter
	}
}
