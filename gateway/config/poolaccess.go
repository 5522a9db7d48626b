package config

import (
	"fmt"
	"strings"

	"github.com/foregate/foregate/internal/yamlfile"
)

// PoolAuth are the files of what the gateway shows to a pool's backends with each request, probe and scrape.
type PoolAuth struct {
	APIKeyFile  string // path of a file with one line, the key; it is sent as "Authorization: Bearer KEY"; "" is none
	HeadersFile string // path of a file with lines "NAME: VALUE"; "" is none
}

// PoolTLS is how the backends of a pool are reached by https. Their certificates are always verified.
type PoolTLS struct {
	On bool // the pool has tls: all its backends are https

	CAFile            string // PEM of the authorities of the backends' certificates; "" is those of the system
	CertFile, KeyFile string // PEM of the gateway's client certificate; "" is none
	ServerName        string // name in the backends' certificates; "" is the host of each URL
}

func readPoolAuth(to *PoolAuth, b *yamlfile.Fields) {
	b.At("api_key_file").Text(&to.APIKeyFile)
	b.At("headers_file").Text(&to.HeadersFile)
	b.Done()
}

func readPoolTLS(to *PoolTLS, v yamlfile.Value) {
	to.On = v.IsSet()
	b := v.Fields()
	b.At("ca_file").Text(&to.CAFile)
	b.At("cert_file").Text(&to.CertFile)
	b.At("key_file").Text(&to.KeyFile)
	b.At("server_name").Text(&to.ServerName)
	b.Done()
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
