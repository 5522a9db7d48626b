package http1

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

func TestConnectionsOfOneTLSIdentityServeNoOther(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) }))
	defer srv.Close()
	identity := func() *tls.Config {
		roots := x509.NewCertPool()
		roots.AddCert(srv.Certificate())
		return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	tr := newTransport(t, Options{})
	first, second := identity(), identity()
	var peers []string
	for _, config := range []*tls.Config{first, second, first, second, second} {
		_, peer, err := post(t, tr, &Request{Base: srv.URL, Path: "/", Identity: &Identity{TLS: config}})
		if err != nil {
			t.Fatal(err)
		}
		peers = append(peers, string(peer))
	}
	if peers[0] == peers[1] || peers[2] != peers[0] || peers[3] != peers[1] || peers[4] != peers[1] {
		t.Errorf("the requests came from %v", peers)
	}
	if _, _, err := post(t, tr, &Request{Base: srv.URL, Path: "/"}); err == nil {
		t.Error("a request without an identity got the connection of another")
	}
}

func TestLinesOfTheIdentityReplaceThoseOfTheHeaderAndAreChecked(t *testing.T) {
	var got http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer srv.Close()
	tr := newTransport(t, Options{})
	req := &Request{
		Base: srv.URL, Path: "/", Header: http.Header{"Authorization": {"Bearer client"}, "X-Other": {"stays"}},
		Fields: []Field{{"Content-Type", "application/json"}}, Identity: &Identity{Headers: []Field{{"Authorization", "Bearer pool"}, {"X-Team", "a"}}},
	}
	if _, _, err := post(t, tr, req); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Authorization": "Bearer pool", "X-Team": "a", "X-Other": "stays", "Content-Type": "application/json"} {
		if !slices.Equal(got[name], []string{want}) {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	req.Identity = &Identity{Headers: []Field{{"X-Team", "a\r\nX-Evil: b"}}}
	if _, _, err := post(t, tr, req); err == nil {
		t.Error("a line that is two was sent")
	}
}
