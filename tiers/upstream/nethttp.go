package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/upstream/http1"
)

// netHTTP makes exchanges with net/http's client.
type netHTTP struct{ transports *credentials.Transports }

// Do is as [http1.Transport.Do].
func (n netHTTP) Do(ctx context.Context, req *http1.Request, resp *http1.Response) error {
	*resp = http1.Response{}
	b := &netBody{}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	if req.Wait > 0 {
		b.until = time.Now().Add(req.Wait)
	}
	begun := false
	defer func() { // also after a panic
		if !begun {
			b.Close()
		}
	}()
	body := req.Body
	if len(req.More) > 0 { // net/http may read it even after the answer was closed
		body = append(slices.Clip(body), slices.Concat(req.More...)...)
	}
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { resp.Reused = c.Reused }}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(b.ctx, trace), http.MethodPost, req.Base+req.Path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range req.Header {
		r.Header[name] = values
	}
	for _, f := range req.Fields {
		r.Header[f.Name] = []string{f.Value}
	}
	b.start()
	answer, err := n.transports.RoundTrip(r, (*credentials.Credentials)(req.Identity).OrNone())
	b.stop()
	if err != nil {
		return b.cause(err)
	}
	begun, b.body = true, answer.Body
	resp.Status, resp.ContentLength, resp.Body = answer.StatusCode, answer.ContentLength, b
	resp.ContentType, resp.ContentEncoding = answer.Header.Get("Content-Type"), answer.Header.Get("Content-Encoding")
	resp.RetryAfter = answer.Header.Get("Retry-After")
	return nil
}

// netBody is the body of a response of net/http's client.
type netBody struct {
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	body   io.ReadCloser // nil before the response
	timer  *time.Timer   // ends the request; runs only in waits
	wait   time.Duration // of SetWait, until the next read begins
	until  time.Time     // the bound of waits; zero is none
}

func (b *netBody) late() { b.cancel(http1.ErrTimeout) }

// cause returns err, or that a wait took too long.
func (b *netBody) cause(err error) error {
	if errors.Is(context.Cause(b.ctx), http1.ErrTimeout) {
		return http1.ErrTimeout
	}
	return err
}

// SetWait implements [http1.Body].
func (b *netBody) SetWait(d time.Duration) {
	b.wait, b.until = d, time.Time{}
}

// start starts the timer.
func (b *netBody) start() {
	switch {
	case b.until.IsZero():
	case b.timer == nil:
		b.timer = time.AfterFunc(time.Until(b.until), b.late)
	default:
		b.timer.Reset(time.Until(b.until))
	}
}

// stop stops the timer.
func (b *netBody) stop() {
	if b.timer != nil {
		b.timer.Stop()
	}
}

// Read implements [http1.Body].
func (b *netBody) Read(p []byte) (int, error) {
	if b.wait > 0 {
		b.until, b.wait = time.Now().Add(b.wait), 0
	}
	b.start()
	n, err := b.body.Read(p)
	b.stop()
	if err != nil && err != io.EOF {
		err = b.cause(err)
	}
	return n, err
}

// Close implements [http1.Body].
func (b *netBody) Close() {
	b.stop()
	b.cancel(context.Canceled)
	if b.body != nil {
		_ = b.body.Close() // errors of an abandoned body do not matter
	}
}
