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

	"github.com/foregate/foregate/gateway/identity"
)

const (
	mostHeaders = 128 // header lines of one request

	// leastBodyRate is what a body must keep up, in bytes/s, once it has started.
	leastBodyRate = 1 << 10

	// bodyStart is the most that is set aside for a body before any of it has
	// come: a Content-Length is a claim, and many claims are a lot of memory.
	bodyStart = 64 << 10

	// leftoverTime is how long the rest of a refused request is waited for.
	leftoverTime = 200 * time.Millisecond
)

// frontDoor refuses what the HTTP server lets through and a gateway must not:
// absolute request URIs, header names that a proxy may confuse, pages of other sites
// where nobody is asked for a key. It keeps a connection from being used again after
// a chunked request (request smuggling by Content-Length beside Transfer-Encoding,
// which the server does not show).
func (g *Gateway) frontDoor(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		// Whoever answers without reading the body leaves it to the server, which
		// reads on in the hope of using the connection again: not for ever.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.timeouts("").BodyStart)) // a connection that is gone shows soon enough
		err := checkLine(r)
		if err == nil && g.opts.Identity.Open() {
			err = ownPage(r)
		}
		if err != nil {
			w.Header().Set("Connection", "close")
			g.fail(w, r, logOf(r), err)
			return
		}
		for name := range r.Header {
			if strings.Contains(name, "_") {
				delete(r.Header, name) // X_Tenant_ID is X-Tenant-ID to some proxies
			}
		}
		id, err := identity.Header(r.Header, "X-Request-Id", 64)
		if err != nil {
			w.Header().Set("Connection", "close")
			g.fail(w, r, logOf(r), err)
			return
		}
		if id != "" {
			logOf(r).client = id
			w.Header().Set("X-Request-Id", id)
		}
		next.ServeHTTP(w, r)
	})
}

func checkLine(r *http.Request) error {
	lines := 0
	for _, values := range r.Header {
		lines += len(values)
	}
	switch {
	case lines > mostHeaders:
		return errHeaders
	case r.URL.Host != "" || !strings.HasPrefix(r.RequestURI, "/"):
		return errAbsoluteURI
	}
	return nil
}

// readBody reads a JSON body, bounded in size and time. The header is judged
// before the first byte is read.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	switch {
	case len(r.Header["Content-Encoding"]) > 0: // also an empty one: another may stand behind it
		return nil, errEncoding
	case !isJSON(r.Header):
		return nil, errContentType
	}
	return takeBody(w, r, g.opts.Limits.Body, g.timeouts(""))
}

// takeBody reads a body of any kind, bounded in size and time.
func takeBody(w http.ResponseWriter, r *http.Request, most int64, t Timeouts) ([]byte, error) {
	if r.ContentLength > most {
		w.Header().Set("Connection", "close")
		return nil, errTooLarge
	}
	rc := http.NewResponseController(w)
	body, err := readSlowly(rc, r, most, t)
	if err == nil {
		err = rc.SetReadDeadline(time.Time{})
	}
	if err != nil {
		w.Header().Set("Connection", "close")
	}
	switch {
	case err == nil:
		return body, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errBodyTimeout
	case errors.Is(err, errTooLarge):
		return nil, err
	}
	return nil, &bodyError{err}
}

// readSlowly reads the body with a rolling deadline: the longer it takes, the
// more must have come.
func readSlowly(rc *http.ResponseController, r *http.Request, most int64, t Timeouts) ([]byte, error) {
	start := time.Now()
	body := make([]byte, 0, firstBuffer(r.ContentLength))
	for {
		if len(body) == cap(body) {
			body = slices.Grow(body, cap(body)) // twice what has come
		}
		allowed := min(t.BodyStart+time.Duration(len(body))*time.Second/leastBodyRate, t.Body)
		if err := rc.SetReadDeadline(start.Add(allowed)); err != nil {
			return nil, err
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > most:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// firstBuffer is how much is set aside for a body that claims a size, -1 for none.
func firstBuffer(size int64) int64 {
	if size < 0 {
		return 4 << 10
	}
	return min(size+1, bodyStart) // one more, so that the last read finds the end
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
