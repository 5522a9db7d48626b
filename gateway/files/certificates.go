package files

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// MaxCertificates bounds each file of certificates or of a key, in bytes. A bundle of all public authorities is a fifth of it.
const MaxCertificates = 1 << 20

// The names of the files, as errors and settings have them.
const (
	certFile = "cert_file"
	keyFile  = "key_file"
	caFile   = "client_ca_file"
)

// ListenerFields are the names of the files, in the order of [Listener.Apply].
var ListenerFields = []string{certFile, keyFile, caFile}

// Listener is the certificate of one listener. Certificate, key and the clients' authorities change together or not at
// all, and a certificate that no client would accept (expired, not valid yet, of another key) is never put into force. It
// is safe for concurrent use after the first Apply.
type Listener struct {
	Setting string  // that names its files, such as "tls"
	Expiry  *Expiry // is told of every certificate in force

	inForce atomic.Pointer[tls.Config]
}

// Config is the configuration for a new connection. It must not be changed. Each Apply makes another one, with keys of
// its own for session tickets: so a client with a ticket of an earlier certificate makes a full handshake, with the
// new certificate and authorities.
func (l *Listener) Config() *tls.Config { return l.inForce.Load() }

// Apply puts the contents of the files into force for new connections: certificate, key and, if there are three, the
// authorities of the clients. After an error nothing has changed.
func (l *Listener) Apply(contents [][]byte) error {
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	pair, err := ParsePair(contents[0], contents[1])
	if err != nil {
		return err
	}
	if err := valid(pair.Leaf, time.Now()); err != nil {
		return fmt.Errorf("%s: %w", certFile, err)
	}
	c.Certificates = []tls.Certificate{pair}
	if len(contents) > 2 {
		if c.ClientCAs, err = ParseAuthorities(contents[2]); err != nil {
			return fmt.Errorf("%s: %w", caFile, err)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	l.inForce.Store(c)
	l.Expiry.Set(l.Setting, pair.Leaf.NotAfter)
	return nil
}

// valid returns why clients refuse a certificate at a time.
func valid(c *x509.Certificate, now time.Time) error {
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("the certificate expired at %s", c.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(c.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s", c.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// ParsePair parses a certificate with its key, in PEM. The errors of the standard library do not say which of the two files is
// meant.
func ParsePair(cert, key []byte) (tls.Certificate, error) {
	chain, err := parseCertificates(cert)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", certFile, err)
	}
	if err := checkKey(key); err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", keyFile, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: is no usable key of the certificate in %s: %s", keyFile, certFile, strings.TrimPrefix(err.Error(), "tls: "))
	}
	pair.Leaf = chain[0]
	return pair, nil
}

// checkKey finds what is usually wrong with a key's file.
func checkKey(data []byte) error {
	for {
		var b *pem.Block
		if b, data = pem.Decode(data); b == nil {
			return errors.New("holds no private key in PEM form")
		}
		if b.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(b.Headers["Proc-Type"], "ENCRYPTED") {
			return errors.New("the private key has a password; write it without one")
		}
		if b.Type == "PRIVATE KEY" || strings.HasSuffix(b.Type, " PRIVATE KEY") {
			return nil
		}
	}
}

// ParseAuthorities parses PEM certificates of authorities.
func ParseAuthorities(data []byte) (*x509.CertPool, error) {
	list, err := parseCertificates(data)
	if err != nil {
		return nil, err
	}
	return poolOf(list), nil
}

// ParseOwn parses the file of a listener's certificate, for a client that knows the file: the certificate itself, and what
// to trust so that no other is accepted.
func ParseOwn(data []byte) (*x509.Certificate, *x509.CertPool, error) {
	list, err := parseCertificates(data)
	if err != nil {
		return nil, nil, err
	}
	return list[0], poolOf(list[:1]), nil
}

func poolOf(list []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range list {
		pool.AddCert(c)
	}
	return pool
}

// parseCertificates parses all certificates of a PEM file, at least one.
func parseCertificates(data []byte) (list []*x509.Certificate, err error) {
	for len(bytes.TrimSpace(data)) > 0 {
		var b *pem.Block
		if b, data = pem.Decode(data); b == nil {
			if bytes.Contains(data, []byte("-----BEGIN")) {
				return nil, errors.New("holds a PEM block that is not complete")
			}
			break // text after the last block
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d cannot be parsed", len(list)+1)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, errors.New("holds no certificate in PEM form")
	}
	return list, nil
}

// warnBefore is how long before a certificate expires the warnings begin.
const warnBefore = 14 * 24 * time.Hour

// Expiry tells when the certificates in force expire: as a metric, and during their last two weeks as warnings. It is safe
// for concurrent use.
type Expiry struct {
	gauge *prometheus.GaugeVec

	mu       sync.Mutex
	notAfter map[string]time.Time // by setting
}

// NewExpiry makes an Expiry without certificates. Without a registerer it has no metric.
func NewExpiry(reg prometheus.Registerer) *Expiry {
	e := &Expiry{notAfter: map[string]time.Time{}, gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "foregate_certificate_not_after_timestamp_seconds", Help: "Time at which the certificate of a setting expires, in seconds since 1970.",
	}, []string{"setting"})}
	if reg != nil {
		reg.MustRegister(e.gauge)
	}
	return e
}

// Set records when the certificate of a setting expires that is in force from now on.
func (e *Expiry) Set(setting string, notAfter time.Time) {
	e.gauge.WithLabelValues(setting).Set(float64(notAfter.Unix()))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notAfter[setting] = notAfter
}

// Forget drops a setting whose certificate is no longer used.
func (e *Expiry) Forget(setting string) {
	e.gauge.DeleteLabelValues(setting)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.notAfter, setting)
}

// Warnings lists the certificates that expire soon or have expired, by setting.
func (e *Expiry) Warnings() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, setting := range slices.Sorted(maps.Keys(e.notAfter)) {
		at := e.notAfter[setting]
		switch left := time.Until(at); {
		case left <= 0:
			out = append(out, fmt.Sprintf("%s: the certificate expired at %s; replace its files", setting, at.UTC().Format(time.RFC3339)))
		case left < warnBefore:
			out = append(out, fmt.Sprintf("%s: the certificate expires at %s, in %d h; replace its files", setting, at.UTC().Format(time.RFC3339), int(left.Hours())))
		}
	}
	return out
}
