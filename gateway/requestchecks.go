package gateway

import (
	"net/http"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

const (
	maxHeaders = 128 // header lines of one request

	// leftoverTimeout is how long the rest of a request is waited for that is refused, or whose body nobody reads.
	leftoverTimeout = 200 * time.Millisecond
)

// checkRequest refuses what the HTTP server lets through and a gateway must not:
// absolute request URIs, header names that a proxy may confuse, pages of other sites
// where nobody is asked for a key. It keeps a connection from being used again after
// a chunked request (request smuggling by Content-Length beside Transfer-Encoding,
// which the server does not show).
func (g *Gateway) checkRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		err := checkTarget(r)
		if err == nil && g.opts.Identity.Open() {
			err = ownPage(r)
		}
		if err != nil {
			w.Header().Set("Connection", "close")
			g.fail(w, r, accessRecordOf(r), err)
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
			g.fail(w, r, accessRecordOf(r), err)
			return
		}
		if id != "" {
			accessRecordOf(r).client = id
			w.Header().Set("X-Request-Id", id)
		}
		next.ServeHTTP(w, r)
	})
}

// withDeadlines ends the wait for clients that send no body, or read no answer: all that time their connections hold
// their places. The server reads what a handler has not read, before it sends the answer and without a deadline. Who
// reads a body or sends a stream sets deadlines of its own, and what is left of a body that is refused has leftoverTimeout.
func (g *Gateway) withDeadlines(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc, now := http.NewResponseController(w), time.Now()
		if r.ContentLength != 0 {
			_ = rc.SetReadDeadline(now.Add(leftoverTimeout)) // a connection that is gone shows soon enough, here and below
		}
		if r.Method != http.MethodPost && !strings.HasPrefix(r.URL.Path, "/debug/pprof/") { // a profile takes as long as it is asked to
			_ = rc.SetWriteDeadline(now.Add(g.timeouts("").Write))
		}
		next.ServeHTTP(w, r)
	})
}

func checkTarget(r *http.Request) error {
	lines := 0
	for _, values := range r.Header {
		lines += len(values)
	}
	switch {
	case lines > maxHeaders:
		return errHeaders
	case r.URL.Host != "" || !strings.HasPrefix(r.RequestURI, "/"):
		return errAbsoluteURI
	}
	return nil
}
