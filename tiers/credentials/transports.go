package credentials

import (
	"crypto/tls"
	"net/http"
	"sync"
	"time"
)

// keepUnused is how long a transport is kept that was not used.
const keepUnused = time.Minute

// Transports send requests of net/http to engines, with the credentials of their pools. Each TLS identity has a transport
// of its own, because a transport shares its connections among all requests to one address. They are safe for concurrent
// use.
type Transports struct {
	open  func(*tls.Config) http.RoundTripper
	plain http.RoundTripper // for credentials without TLS

	mu    sync.Mutex
	byTLS map[*tls.Config]*used // bounded by the identities that were used in the last minute, and one
}

// used is a transport, and when it was used last.
type used struct {
	transport http.RoundTripper
	at        time.Time
}

// NewTransports returns Transports whose members are made by a function, for a TLS identity or for nil.
func NewTransports(open func(*tls.Config) http.RoundTripper) *Transports {
	return &Transports{open: open, plain: open(nil), byTLS: map[*tls.Config]*used{}}
}

// RoundTrip sends a request with credentials. It does not change the request.
func (t *Transports) RoundTrip(req *http.Request, c *Credentials) (*http.Response, error) {
	if c == nil {
		return t.plain.RoundTrip(req)
	}
	if len(c.Headers) > 0 {
		own := *req
		own.Header = req.Header.Clone()
		for _, f := range c.Headers {
			own.Header[f.Name] = []string{f.Value}
		}
		req = &own
	}
	return t.of(c.TLS).RoundTrip(req)
}

// of returns the transport of a TLS identity.
func (t *Transports) of(config *tls.Config) http.RoundTripper {
	if config == nil {
		return t.plain
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if u := t.byTLS[config]; u != nil {
		u.at = now
		return u.transport
	}
	for old, u := range t.byTLS {
		if now.Sub(u.at) > keepUnused {
			closeIdle(u.transport)
			delete(t.byTLS, old)
		}
	}
	u := &used{t.open(config), now}
	t.byTLS[config] = u
	return u.transport
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transports) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	closeIdle(t.plain)
	for _, u := range t.byTLS {
		closeIdle(u.transport)
	}
}

func closeIdle(r http.RoundTripper) { (&http.Client{Transport: r}).CloseIdleConnections() }

// Of returns a RoundTripper that sends each request with the credentials that now returns then.
func (t *Transports) Of(now func() *Credentials) http.RoundTripper { return &ofPool{t, now} }

// ofPool sends the requests of one pool.
type ofPool struct {
	transports *Transports
	now        func() *Credentials
}

// RoundTrip implements [http.RoundTripper].
func (p *ofPool) RoundTrip(req *http.Request) (*http.Response, error) {
	return p.transports.RoundTrip(req, p.now())
}

// CloseIdleConnections closes the idle connections of all pools of these transports.
func (p *ofPool) CloseIdleConnections() { p.transports.CloseIdleConnections() }
