// Package credentials holds what the gateway shows to the engines of a pool, and what it accepts of them: header lines
// such as an API key, the gateway's client certificate, and the authorities of the engines' certificates. Start at [Live].
//
// Everything that is sent to an engine reads the credentials when it is sent: requests, probes, scrapes, look-ups of model
// cards. So new credentials hold for the next request, and a connection is only used for the TLS identity that it was
// opened with.
package credentials

import (
	"crypto/tls"
	"sync/atomic"
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
