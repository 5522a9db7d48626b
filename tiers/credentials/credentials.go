// Package credentials holds what the gateway shows to the engines of a pool, and what it accepts of them: header lines
// such as an API key, the gateway's client certificate, and the authorities of the engines' certificates. Start at [Live].
//
// Everything that is sent to an engine reads the credentials when it is sent: requests, probes, scrapes, look-ups of model
// cards. So new credentials hold for the next request, and a connection is only used for the TLS identity that it was
// opened with.
package credentials

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Credentials are those of one pool at one time. They never change. nil is none. Clients cannot replace the headers: names
// of headers that the gateway sets itself are refused where they are read.
type Credentials struct {
	Headers []Field // lines of each request; they replace those of the same name in its header

	// TLS is how connections to https URLs are opened; nil is with the system's authorities, without a certificate. A
	// connection is only used for requests with the same pointer.
	TLS *tls.Config
}

// Field is a header line. Its name is in canonical form.
type Field struct{ Name, Value string }

// Live are the credentials of one pool, as its files say now. A nil *Live has none. It is safe for concurrent use.
type Live struct{ now atomic.Pointer[Credentials] }

// Now returns the credentials in force.
func (l *Live) Now() *Credentials {
	if l == nil {
		return nil
	}
	return l.now.Load()
}

// Set puts credentials into force. They must not change afterwards.
func (l *Live) Set(c *Credentials) { l.now.Store(c) }

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

// Refusal says that a pool's credentials do not fit an engine: the engine answers 401 or 403, it ends the TLS handshake,
// or the gateway does not accept its certificate. That is the fault of the pool's settings, never of a client.
type Refusal struct {
	Status int   // 401 or 403; 0 is a refused TLS connection
	TLS    error // why the TLS connection was refused; nil if Status is set
}

// Error says what was refused, without any words of the engine: they might repeat a key.
func (r *Refusal) Error() string {
	if r.Status != 0 {
		return fmt.Sprintf("the engine refuses the gateway's credentials with status %d", r.Status)
	}
	return "the TLS connection is refused: " + r.TLS.Error()
}

// Unwrap returns the error of the TLS connection.
func (r *Refusal) Unwrap() error { return r.TLS }

// RefusedBy returns the refusal of a response's status, nil for any other status.
func RefusedBy(status int) *Refusal {
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		return &Refusal{Status: status}
	}
	return nil
}

// RefusalOf returns the refusal that an error contains, nil if it has none.
func RefusalOf(err error) *Refusal {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r
	}
	if _, bad := errors.AsType[*tls.CertificateVerificationError](err); bad {
		if u, ok := errors.AsType[*url.Error](err); ok { // which net/http's client puts around it
			err = u.Err
		}
		return &Refusal{TLS: err}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" { // an alert of the engine's TLS
		return &Refusal{TLS: op.Err}
	}
	return nil
}
