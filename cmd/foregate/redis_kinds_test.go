package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/internal/redistest"
)

func TestReplicasShareThroughTLSAsAnACLUser(t *testing.T) {
	t.Parallel()
	ca, cert, key := redistest.Certificates(t)
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	hands := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{own}}
	hands.RootCAs.AppendCertsFromPEM(pem)
	addr := "127.0.0.1:" + redistest.FreePort(t)
	_, port, _ := net.SplitHostPort(addr)
	n := redistest.StartWith(t, &redis.Options{Addr: addr, TLSConfig: hands}, "--port", "0", "--tls-port", port,
		"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--tls-auth-clients", "yes")
	n.Do("ACL", "SETUSER", "foregate", "on", ">s3cret", "allcommands", "~foregate:*", "&foregate:*")
	n.Do("ACL", "SETUSER", "default", "resetpass", "nopass", "-@all", "+hset", "+ping", "+hello", "+client", "+acl", "allkeys")
	section := "url: rediss://foregate:s3cret@%s, ca_file: %s, cert_file: %s, key_file: %s, server_name: %s"
	p := newPair(t, fmt.Sprintf(section, n.Addr, ca, cert, key, "redis.internal"))
	apptest.Eventually(t, "they share", p.shared)
	p.obeys(t, n.Client, 450*time.Millisecond)
	for name, section := range map[string]string{
		"another name":      fmt.Sprintf(section, n.Addr, ca, cert, key, "redis.example"),
		"another authority": fmt.Sprintf("url: rediss://foregate:s3cret@%s, cert_file: %s, key_file: %s", n.Addr, cert, key),
		"no certificate":    fmt.Sprintf("url: rediss://foregate:s3cret@%s, ca_file: %s", n.Addr, ca),
		"no TLS":            fmt.Sprintf("url: redis://foregate:s3cret@%s", n.Addr),
		"another password":  fmt.Sprintf("url: rediss://foregate:wrong@%s, ca_file: %s, cert_file: %s, key_file: %s", n.Addr, ca, cert, key),
	} {
		p := newPair(t, section)
		apptest.Eventually(t, name+" is told", func() bool { return p.lines(`"mode":"local"`) == 1 })
		if p.mode("shared") || strings.Contains(p.logs[0].String(), "s3cret") {
			t.Errorf("%s: %s", name, p.logs[0].String())
		}
	}
}

// hands are a client of the whole cluster for the test itself.
func hands(t *testing.T, c *redistest.Cluster) *redis.ClusterClient {
	t.Helper()
	h := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Nodes[0].Addr}})
	t.Cleanup(func() { _ = h.Close() })
	return h
}
