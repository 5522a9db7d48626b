package gateway

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/upload"
)

const (
	// minBodyRate is the minimum rate of a body once it has started, in bytes/s.
	minBodyRate = 1 << 10

	// minBuffer and maxUnproved bound the memory of a body before its first bytes, and before maxUnproved
	// bytes of it have arrived: a client can claim any Content-Length. Neither gives a client more than some 64
	// times what it has sent. minBuffer is what the server has read of a connection anyway. All in bytes.
	minBuffer   = 4 << 10
	minProof    = 2 << 10   // that must have come of a body longer than minBuffer
	atOnce      = 128 << 10 // a body up to this length gets all of its buffer then
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
		closeUnread(w, r)
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

	// grow returns memory of at least size bytes that begins with body's, which is not used any more; nil makes it.
	grow func(body []byte, size int64) []byte
}

// take reads a body, bounded in size and time.
func (b bodyReader) take(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > b.max {
		closeUnread(w, r)
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
	closeUnread(w, r)
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
		full := len(body) == cap(body)
		size := nextBuffer(int64(len(body)), r.ContentLength, b.max)
		if size > int64(cap(body)) && (full || r.ContentLength >= 0) {
			var err error
			if body, err = b.enlarge(body, size); err != nil {
				return nil, err
			}
			full = false
		}
		into := body[len(body):cap(body)]
		if full { // it has no room to find the end
			into = make([]byte, 1)
		}
		allowed := min(b.timeouts.BodyStart+time.Duration(len(body))*time.Second/minBodyRate, b.timeouts.Body)
		if err := rc.SetReadDeadline(start.Add(allowed)); err != nil {
			return nil, err
		}
		n, err := r.Body.Read(into)
		if len(body)+n > cap(body) || int64(len(body)+n) > b.max {
			return nil, errTooLarge
		}
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF):
			return slices.Clip(body), nil
		case err != nil:
			return nil, err
		}
	}
}

// enlarge returns a body in a larger buffer, after that was charged.
func (b bodyReader) enlarge(body []byte, size int64) ([]byte, error) {
	if b.charge != nil {
		if err := b.charge(upload.Capacity(size)); err != nil {
			return nil, err
		}
	}
	if b.grow == nil {
		return append(make([]byte, 0, size), body...), nil
	}
	return b.grow(body, size), nil
}

// nextBuffer returns the size of the buffer that a body needs: have bytes have arrived, and the client claims
// claimed bytes, −1 if unknown. Without a claim it is that of the buffer after a full one: it doubles, up to
// one byte more than the maximum, so that a longer body is noticed.
func nextBuffer(have, claimed, maximum int64) int64 {
	switch {
	case claimed < 0:
		return min(max(minBuffer, 2*have), maximum+1)
	case have < minProof:
		return min(claimed, minBuffer)
	case have < maxUnproved && claimed > atOnce:
		return maxUnproved
	}
	return claimed
}

// chargedBytes is what a body of a length was charged when it had been read, see [nextBuffer].
func chargedBytes(length, claimed, maximum int64) int64 {
	size := max(claimed, 0)
	for claimed < 0 && size <= length {
		size = nextBuffer(size, claimed, maximum)
	}
	return upload.Capacity(size)
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
