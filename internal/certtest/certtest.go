// Package certtest makes certificate authorities and certificates for tests. Start at [New].
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a certificate authority.
type Authority struct {
	File string // its certificate
	PEM  []byte // the same
	Pool *x509.CertPool

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Leaf describes a certificate of an [Authority] for servers and clients.
type Leaf struct {
	Name      string        // common name
	Hosts     []string      // names and addresses of the server; nil is 127.0.0.1 and localhost
	Starts    time.Duration // from now; 0 is an hour ago
	Ends      time.Duration // from now; 0 is in an hour
	ForServer bool          // not for clients
}

// Pair is a certificate with its key, as PEM.
type Pair struct{ Cert, Key []byte }

// New makes an authority.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-1e4 * time.Hour), NotAfter: time.Now().Add(1e4 * time.Hour),
	}}
	a.key = newKey(t)
	a.PEM = sign(t, a.cert, a, a.key)
	a.Pool = x509.NewCertPool()
	a.Pool.AppendCertsFromPEM(a.PEM)
	a.File = Write(t, filepath.Join(t.TempDir(), "ca.pem"), a.PEM)
	return a
}

// Issue makes a certificate.
func (a *Authority) Issue(t testing.TB, l Leaf) Pair {
	t.Helper()
	if l.Starts == 0 {
		l.Starts = -time.Hour
	}
	if l.Ends == 0 {
		l.Ends = time.Hour
	}
	key := newKey(t)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: l.Name}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(l.Starts), NotAfter: time.Now().Add(l.Ends), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if l.Hosts != nil {
		c.DNSNames, c.IPAddresses = nil, nil
	}
	for _, host := range l.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, host)
		}
	}
	if !l.ForServer {
		c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Pair{Cert: sign(t, c, a, key), Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}
}

// Files writes a certificate and its key into a directory of their own.
func (p Pair) Files(t testing.TB) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	return Write(t, filepath.Join(dir, "tls.crt"), p.Cert), Write(t, filepath.Join(dir, "tls.key"), p.Key)
}

// TLS is the pair as a client or server presents it.
func (p Pair) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Write writes a file that only its owner may read, and returns its path.
func Write(t testing.TB, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, c *x509.Certificate, by *Authority, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, by.cert, key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
