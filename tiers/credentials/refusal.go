package credentials

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
)

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
