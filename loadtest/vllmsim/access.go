package vllmsim

import (
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// guarded are the beginnings of the paths that vLLM's --api-key protects. /health, /metrics, /tokenize and others stay
// open.
var guarded = [...]string{"/v1", "/v2", "/inference", "/cohere"}

// admits reports whether a request has one of the keys, or needs none. The simulator's own routes are always open.
func (s *Server) admits(r *http.Request) bool {
	if len(s.opts.APIKeys) == 0 || strings.HasPrefix(r.URL.Path, "/sim/") {
		return true
	}
	needed := s.opts.KeyForAllPaths
	for _, prefix := range guarded {
		needed = needed || strings.HasPrefix(r.URL.Path, prefix)
	}
	if !needed {
		return true
	}
	shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, key := range s.opts.APIKeys {
		if ok && subtle.ConstantTimeCompare([]byte(shown), []byte(key)) == 1 {
			return true
		}
	}
	return false
}

// SSL are uvicorn's settings of TLS: paths of PEM files, and what is wanted of clients.
type SSL struct {
	CertFile, KeyFile string // --ssl-certfile, --ssl-keyfile; "" is without TLS
	CACerts           string // --ssl-ca-certs: authorities of client certificates
	CertReqs          int    // --ssl-cert-reqs: 0 wants no certificate, 1 verifies one that is shown, 2 requires one
}

// Config reads the files. nil is without TLS.
func (s SSL) Config() (*tls.Config, error) {
	switch {
	case s.CertReqs < 0 || s.CertReqs > 2:
		return nil, fmt.Errorf("vllmsim: ssl cert reqs %d is not 0, 1 or 2", s.CertReqs)
	case s.CertFile == "" && (s.KeyFile != "" || s.CACerts != "" || s.CertReqs != 0):
		return nil, errors.New("vllmsim: TLS needs a certificate")
	case s.CertFile == "":
		return nil, nil
	case s.CertReqs > 0 && s.CACerts == "":
		return nil, errors.New("vllmsim: client certificates need their authorities")
	}
	cert, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("vllmsim: %w", err)
	}
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert},
		ClientAuth: [...]tls.ClientAuthType{tls.NoClientCert, tls.VerifyClientCertIfGiven, tls.RequireAndVerifyClientCert}[s.CertReqs],
	}
	if s.CACerts == "" {
		return c, nil
	}
	pem, err := os.ReadFile(s.CACerts)
	if err != nil {
		return nil, fmt.Errorf("vllmsim: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("vllmsim: the authorities of client certificates hold no certificate in PEM")
	}
	return c, nil
}
