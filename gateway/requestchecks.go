package gateway

import (
	"net/http"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

const (
	maxHeaders = 128 // header lines of one request

	// leftoverTimeout is how long the gateway waits for the rest of a request that is refused, or whose body
	// is ignored.
	leftoverTimeout = 200 * time.Millisecond
)

// checkRequest refuses requests that the HTTP server accepts and a gateway must not: absolute request URIs,
// header names that a proxy may confuse, and cross-site pages on a listener without keys. It closes the
// connection after a chunked request (request smuggling by Content-Length together with Transfer-Encoding,
// which the server does not show).
func (g *Gateway) checkRequest(l *accessRecord, w http.ResponseWriter, r *http.Request) error {
	if len(r.TransferEncoding) > 0 {
		closeUnread(w, r)
	}
	err := checkTarget(r)
	if err == nil && g.opts.Identity.Open() {
		err = ownPage(r)
	}
	if err != nil {
		closeUnread(w, r)
		return err
	}
	id, err := identity.Header(r.Header, "X-Request-Id", 64)
	if err != nil {
		closeUnread(w, r)
		return err
	}
	if id != "" {
		l.client = id
		l.setID(w.Header(), id)
	}
	return nil
}

// closeUnread closes the connection of a refused request after its answer, because what follows on it may not be what the
// client means. With HTTP/2 requests have streams of their own, and the others on the connection are not to blame.
func closeUnread(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor < 2 {
		w.Header().Set("Connection", "close")
	}
}

// withDeadlines bounds the time of clients that do not send a body or do not read an answer, because their
// connections occupy slots. Before the server sends the answer, it reads the unread body without a deadline.
// The handlers of [Gateway.front] read bodies and send streams: they set deadlines of their own, and so does
// [Gateway.fail] for the rest of a refused body.
func (g *Gateway) withDeadlines(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc, now := http.NewResponseController(w), time.Now()
		if r.ContentLength != 0 {
			_ = rc.SetReadDeadline(now.Add(leftoverTimeout)) // a closed connection is detected soon enough, here and below
		}
		if r.Method != http.MethodPost && !strings.HasPrefix(r.URL.Path, "/debug/pprof/") { // a profile takes as long as requested
			_ = rc.SetWriteDeadline(now.Add(g.opts.Settings.Snapshot().Global().Client.Write))
		}
		next.ServeHTTP(w, r)
	})
}

// checkTarget checks the target and the header lines of a request. It deletes headers with an underscore: some
// proxies treat X_Tenant_ID as X-Tenant-ID.
func checkTarget(r *http.Request) error {
	lines := 0
	for name, values := range r.Header {
		lines += len(values)
		if strings.IndexByte(name, '_') >= 0 {
			delete(r.Header, name)
		}
	}
	switch {
	case lines > maxHeaders:
		return errHeaders
	case r.URL.Host != "" || !strings.HasPrefix(r.RequestURI, "/"):
		return errAbsoluteURI
	}
	return nil
}
