package gateway

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

const (
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
		return tooLarge(g.opts.Limits.Body)
	}
	return nil
}

// tooLarge refuses a body of more than limit bytes.
func tooLarge(limit int64) error {
	return refuse("body_too_large", fmt.Sprintf("The request body is larger than this gateway accepts: %d bytes.", limit))
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
	max    int64                   // bytes
	wait   time.Duration           // for the whole body
	charge func(bytes int64) error // called before memory is taken; an error refuses it; nil allows all
}

// take reads a body, bounded in size and time.
func (b bodyReader) take(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > b.max {
		closeUnread(w, r)
		return nil, tooLarge(b.max)
	}
	rc := http.NewResponseController(w)
	err := rc.SetReadDeadline(time.Now().Add(b.wait))
	var body []byte
	if err == nil {
		body, err = b.read(http.MaxBytesReader(w, r.Body, b.max), r.ContentLength)
	}
	if err == nil {
		err = rc.SetReadDeadline(time.Time{})
	}
	if err == nil {
		return body, nil
	}
	closeUnread(w, r)
	_ = rc.SetReadDeadline(time.Now().Add(leftoverTimeout)) // the refusal must not wait for the rest of the body
	short, isShort := errors.AsType[*shortage](err)
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case isShort:
		return nil, short
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errBodyTimeout
	case large:
		return nil, tooLarge(b.max)
	}
	return nil, fmt.Errorf("%w (%w)", errBadBody, err)
}

// read reads a body of which the client claims so many bytes, −1 for unknown.
func (b bodyReader) read(from io.Reader, claimed int64) ([]byte, error) {
	var body []byte
	for {
		full := len(body) == cap(body)
		size := nextBuffer(int64(len(body)), claimed, b.max)
		if size > int64(cap(body)) && (full || claimed >= 0) {
			if b.charge != nil {
				if err := b.charge(size); err != nil {
					return nil, err
				}
			}
			body, full = append(make([]byte, 0, size), body...), false
		}
		into := body[len(body):cap(body)]
		if full { // it has no room to find the end
			into = make([]byte, 1)
		}
		n, err := from.Read(into)
		if len(body)+n > cap(body) {
			return nil, tooLarge(b.max) // more than claimed
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
