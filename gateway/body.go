package gateway

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/upload"
)

const (
	// minBodyRate is the minimum rate of a body once it has started, in bytes/s.
	minBodyRate = 1 << 10

	// minBuffer and maxUnproved bound the memory of a body before its first byte, and before maxUnproved
	// bytes of it have arrived: a client can claim any Content-Length. minBuffer is what the server has read
	// of a connection anyway. Both in bytes.
	minBuffer   = 4 << 10
	maxUnproved = 64 << 10
)

// checkBody checks a request's headers before the first byte of its body is read.
func (g *Gateway) checkBody(w http.ResponseWriter, r *http.Request) error {
	switch {
	case len(r.Header["Content-Encoding"]) > 0: // also an empty one: another value may follow it
		return errEncoding
	case !isJSON(r.Header):
		return errContentType
	case r.ContentLength > g.opts.Limits.Body:
		w.Header().Set("Connection", "close")
		return errTooLarge
	}
	return nil
}

// acquireSlot takes one of a tenant's concurrent slots for a large body before it is read; leave returns it.
// Small bodies take no slot here: they cost little, and a request that the cache answers counts against no
// limit.
func (g *Gateway) acquireSlot(l *accessRecord, r *http.Request) (leave func(), err error) {
	if r.ContentLength >= 0 && r.ContentLength <= maxUnproved {
		return func() {}, nil
	}
	return g.pipeline.AcquireSlot(&l.Metadata)
}

// bodyReader reads one request body.
type bodyReader struct {
	max      int64 // bytes
	timeouts Timeouts
	charge   func(bytes int64) error // called before memory is taken; an error refuses it; nil allows all
}

// take reads a body, bounded in size and time.
func (b bodyReader) take(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > b.max {
		w.Header().Set("Connection", "close")
		return nil, errTooLarge
	}
	rc := http.NewResponseController(w)
	body, err := b.read(rc, r)
	if err == nil {
		err = rc.SetReadDeadline(time.Time{})
	}
	if err == nil {
		return body, nil
	}
	w.Header().Set("Connection", "close")
	_ = rc.SetReadDeadline(time.Now().Add(leftoverTimeout)) // the refusal must not wait for the rest of the body
	refused, isRefused := errors.AsType[*upload.Error](err)
	switch {
	case isRefused:
		return nil, refused
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errBodyTimeout
	case errors.Is(err, errTooLarge):
		return nil, err
	}
	return nil, &bodyError{err}
}

// read reads the body with a rolling deadline that follows minBodyRate.
func (b bodyReader) read(rc *http.ResponseController, r *http.Request) ([]byte, error) {
	start := time.Now()
	var body []byte
	for {
		if len(body) == cap(body) {
			var err error
			if body, err = b.grow(body, r.ContentLength); err != nil {
				return nil, err
			}
		}
		allowed := min(b.timeouts.BodyStart+time.Duration(len(body))*time.Second/minBodyRate, b.timeouts.Body)
		if err := rc.SetReadDeadline(start.Add(allowed)); err != nil {
			return nil, err
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > b.max:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// grow enlarges a full buffer, after it was charged.
func (b bodyReader) grow(body []byte, claimed int64) ([]byte, error) {
	size := nextBuffer(int64(len(body)), claimed, b.max)
	if b.charge != nil {
		if err := b.charge(size); err != nil {
			return nil, err
		}
	}
	return append(make([]byte, 0, size), body...), nil
}

// nextBuffer returns the size of the next buffer of a body: have bytes have arrived, and the client claims
// claimed bytes, −1 if unknown. After maxUnproved bytes the buffer gets the whole length at once; without a
// claim it doubles. It has one byte more than the body, so that the last read finds the end.
func nextBuffer(have, claimed, maximum int64) int64 {
	switch {
	case claimed < 0:
		return min(max(minBuffer, 2*have), maximum+1)
	case have < minBuffer:
		return min(claimed+1, minBuffer)
	case have < maxUnproved:
		return min(claimed+1, maxUnproved)
	}
	return claimed + 1
}

// isJSON accepts application/json, with a charset of UTF-8 or none.
func isJSON(h http.Header) bool {
	values := h.Values("Content-Type")
	if len(values) != 1 {
		return false
	}
	if values[0] == "application/json" {
		return true
	}
	kind, params, err := mime.ParseMediaType(values[0])
	if err != nil || kind != "application/json" {
		return false
	}
	charset, ok := params["charset"]
	return !ok || strings.EqualFold(charset, "utf-8")
}
