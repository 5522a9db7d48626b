package config

import (
	"fmt"
	"strings"
)

// PoolAuth are the files of what the gateway shows to a pool's backends with each request, probe and scrape.
type PoolAuth struct {
	APIKeyFile  string `yaml:"api_key_file"` // path of a file with one line, the key; it is sent as "Authorization: Bearer KEY"; "" is none
	HeadersFile string `yaml:"headers_file"` // path of a file with lines "NAME: VALUE"; "" is none
}

// PoolTLS is how the backends of a pool are reached by https. Their certificates are always verified.
type PoolTLS struct {
	On bool // the pool has tls: all its backends are https

	CAFile     string `yaml:"ca_file"`     // PEM of the authorities of the backends' certificates; "" is those of the system
	CertFile   string `yaml:"cert_file"`   // PEM of the gateway's client certificate; "" is none
	KeyFile    string `yaml:"key_file"`    // PEM of its key
	ServerName string `yaml:"server_name"` // name in the backends' certificates; "" is the host of each URL
}

// checkPoolAuth checks the paths of the files. Their readers check the content.
func (r reader) checkPoolAuth(path string, a PoolAuth) {
	for _, f := range []struct{ path, file string }{{path + ".api_key_file", a.APIKeyFile}, {path + ".headers_file", a.HeadersFile}} {
		if r.Has(f.path) {
			r.checkPath(f.path, f.file, "")
		}
	}
}

// checkPoolTLS checks the fields of a pool's tls, and that all its backends use it.
func (r reader) checkPoolTLS(pool string, p Pool) {
	path := pool + ".tls"
	if !r.Has(path) || !r.Sound(path) {
		return
	}
	cert, key := path+".cert_file", path+".key_file"
	for _, f := range []struct{ path, file string }{{path + ".ca_file", p.TLS.CAFile}, {cert, p.TLS.CertFile}, {key, p.TLS.KeyFile}} {
		if r.Has(f.path) {
			r.checkPath(f.path, f.file, "")
		}
	}
	switch {
	case r.Has(cert) && !r.Has(key):
		r.Fail(cert, "needs %s, the certificate's private key", key)
	case r.Has(key) && !r.Has(cert):
		r.Fail(key, "needs %s, the certificate that the key belongs to", cert)
	}
	if name := path + ".server_name"; r.Has(name) && r.Sound(name) && !hostOK(p.TLS.ServerName) {
		r.Fail(name, "want the name in the backends' certificates, such as vllm.internal")
	}
	for i, backend := range p.Backends {
		if at := fmt.Sprintf("%s.backends[%d]", pool, i); strings.HasPrefix(backend, "http:") && r.Sound(at) {
			r.Fail(at, "the pool has tls; want https://, or remove tls")
		}
	}
}
