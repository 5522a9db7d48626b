package gateway

import (
	"net/http"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

const (
	mostHeaders = 128 // header lines of one request

	// leftoverTime is how long the rest of a request is waited for that is refused, or whose body nobody reads.
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

// bounded ends the wait for bodies. The server reads what a handler has not read, before it sends the answer and
// without a deadline, and all that time the connection holds its place. Who reads a body sets a deadline of its own.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(leftoverTime)) // a connection that is gone shows soon enough
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
