package vllmsim

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/foregate/foregate/internal/redistest"
)

func TestAKeyGuardsThePathsThatVLLMsDoes(t *testing.T) {
	for everywhere, open := range map[bool][]string{false: {"/health", "/metrics", "/tokenize", "/version", "/sim/state"}, true: {"/sim/state"}} {
		s := Start(t, Options{APIKeys: []string{"one", "two"}, KeyForAllPaths: everywhere})
		for _, path := range []string{"/v1/models", "/v1/chat/completions", "/inference/v1/generate", "/v1/none", "/health", "/metrics", "/tokenize", "/version", "/sim/state"} {
			isOpen := false
			for _, o := range open {
				isOpen = isOpen || o == path
			}
			for shown, admitted := range map[string]bool{"": isOpen, "Bearer one": true, "Bearer two": true, "Bearer three": isOpen, "one": isOpen, "Basic one": isOpen} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", shown)
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				refused := resp.StatusCode == http.StatusUnauthorized
				if refused == admitted || refused && string(body) != `{"error":"Unauthorized"}` {
					t.Errorf("everywhere %v, %s with %q: status %d: %.100s", everywhere, path, shown, resp.StatusCode, body)
				}
			}
		}
	}
}

func TestTLSIsAsUvicornsSettingsSay(t *testing.T) {
	ca, cert, key := redistest.Certificates(t)
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for reqs, without := range map[int]bool{0: true, 1: true, 2: false} {
		config, err := SSL{CertFile: cert, KeyFile: key, CACerts: ca, CertReqs: reqs}.Config()
		if err != nil {
			t.Fatal(err)
		}
		s := Start(t, Options{TLS: config})
		for shows, want := range map[bool]bool{false: without, true: true} {
			client := tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
			if shows {
				client.Certificates = []tls.Certificate{own}
			}
			transport := &http.Transport{TLSClientConfig: &client}
			resp, err := (&http.Client{Transport: transport}).Get(s.URL() + "/health")
			if (err == nil) != want {
				t.Errorf("cert reqs %d, with a certificate %v: %v", reqs, shows, err)
			}
			if err == nil {
				_ = resp.Body.Close()
			}
			transport.CloseIdleConnections()
		}
	}
	for _, bad := range []struct {
		ssl  SSL
		says string
	}{
		{SSL{CertFile: cert, KeyFile: key, CertReqs: 3}, "3 is not 0, 1 or 2"}, {SSL{KeyFile: key}, "TLS needs a certificate"},
		{SSL{CertFile: cert, KeyFile: key, CertReqs: 2}, "client certificates need their authorities"},
		{SSL{CertFile: cert, KeyFile: ca}, "tls:"}, {SSL{CertFile: cert, KeyFile: key, CACerts: key}, "hold no certificate in PEM"},
	} {
		if _, err := bad.ssl.Config(); err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%+v: %v", bad.ssl, err)
		}
	}
	if c, err := (SSL{}).Config(); c != nil || err != nil {
		t.Errorf("without TLS: %v, %v", c, err)
	}
}
