package app

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/reload"
	"github.com/foregate/foregate/gateway/secrets"
	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/upstream/http1"
)

// maxPEMFile is larger than any bundle of authorities, in bytes.
const maxPEMFile = 1 << 20

// ownHeaders are the headers of requests to engines that the gateway sets itself.
var ownHeaders = []string{"Accept", "Accept-Encoding", "Traceparent", "Tracestate", "User-Agent", "X-Data-Parallel-Rank", "X-Request-Id"}

// poolFiles are the contents of the files of one pool's auth and tls. They make its credentials.
type poolFiles struct {
	server string // tls.server_name
	live   *credentials.Live

	mu      sync.Mutex
	key     []http1.Field // of the key: one line, or none
	headers []http1.Field
	tls     *tls.Config // nil without tls
}

// poolCredentials reads the files of a pool's auth and tls, and has them watched. It returns the credentials that they
// make, nil for a pool without both, and what ends the watching.
func poolCredentials(name string, def config.Pool, files *reload.Watcher) (own *credentials.Live, unwatch func(), err error) {
	var ends []func()
	unwatch = func() {
		for _, end := range ends {
			end()
		}
	}
	if def.Auth == (config.PoolAuth{}) && !def.TLS.On {
		return nil, unwatch, nil
	}
	p := &poolFiles{server: def.TLS.ServerName, live: new(credentials.Live)}
	if def.TLS.On {
		p.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: p.server}
		p.live.Set(&credentials.Credentials{TLS: p.tls})
	}
	at := "pools." + name
	for _, f := range []reload.File{
		{Setting: at + ".auth.api_key_file", Paths: []string{def.Auth.APIKeyFile}, Max: secrets.MaxFile, Secret: true, Apply: p.setKey},
		{Setting: at + ".auth.headers_file", Paths: []string{def.Auth.HeadersFile}, Max: secrets.MaxHeadersFile, Secret: true, Apply: p.setHeaders},
		{Setting: at + ".tls.ca_file", Paths: []string{def.TLS.CAFile}, Max: maxPEMFile, Apply: p.setAuthorities},
		{Setting: at + ".tls.cert_file", Paths: []string{def.TLS.CertFile, def.TLS.KeyFile}, Max: maxPEMFile, Secret: true, Apply: p.setCertificate},
	} {
		if f.Paths[0] == "" {
			continue
		}
		end, err := files.Watch(f)
		if err != nil {
			unwatch()
			return nil, nil, err
		}
		ends = append(ends, end)
	}
	return p.live, unwatch, nil
}

// set changes a part, and puts the credentials of all parts into force.
func (p *poolFiles) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.live.Set(&credentials.Credentials{Headers: slices.Concat(p.key, p.headers), TLS: p.tls})
}

// setKey takes the content of api_key_file.
func (p *poolFiles) setKey(contents [][]byte) error {
	key, err := secrets.Line(contents[0], 1)
	if err != nil {
		return err
	}
	if p.has("Authorization", &p.headers) {
		return errors.New("headers_file has a line Authorization as well; keep one of the two")
	}
	p.set(func() { p.key = []http1.Field{{Name: "Authorization", Value: "Bearer " + string(key)}} })
	return nil
}

// setHeaders takes the content of headers_file.
func (p *poolFiles) setHeaders(contents [][]byte) error {
	list, err := secrets.Headers(contents[0])
	if err != nil {
		return err
	}
	fields := make([]http1.Field, len(list))
	for i, h := range list {
		switch {
		case slices.Contains(ownHeaders, h.Name):
			return fmt.Errorf("has a line %s, which the gateway sets itself; remove it", h.Name)
		case p.has(h.Name, &p.key):
			return errors.New("has a line Authorization, which is api_key_file's; keep one of the two")
		}
		fields[i] = http1.Field(h)
	}
	p.set(func() { p.headers = fields })
	return nil
}

// has reports whether one of the fields has the name.
func (p *poolFiles) has(name string, of *[]http1.Field) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(*of, func(f http1.Field) bool { return f.Name == name })
}

// setAuthorities takes the content of ca_file.
func (p *poolFiles) setAuthorities(contents [][]byte) error {
	roots, err := authorities(contents[0])
	if err != nil {
		return err
	}
	p.set(func() {
		p.tls = p.tls.Clone() // another pointer: connections that the old authorities opened are not used again
		p.tls.RootCAs = roots
	})
	return nil
}

// setCertificate takes the contents of cert_file and key_file.
func (p *poolFiles) setCertificate(contents [][]byte) error {
	cert, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return err
	}
	p.set(func() {
		p.tls = p.tls.Clone()
		p.tls.Certificates = []tls.Certificate{cert}
	})
	return nil
}

// authorities parses certificates in PEM. Every block must be one.
func authorities(data []byte) (*x509.CertPool, error) {
	roots, n := x509.NewCertPool(), 0
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		data = rest
		n++
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("PEM block %d is no certificate", n)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("PEM block %d: %w", n, err)
		}
		roots.AddCert(cert)
	}
	switch {
	case n == 0:
		return nil, errors.New("holds no certificate in PEM")
	case len(bytes.TrimSpace(data)) > 0:
		return nil, errors.New("something that is no PEM follows the last certificate")
	}
	return roots, nil
}
