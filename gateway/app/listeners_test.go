package app_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/internal/certtest"
)

const wholeAnswer = `{"model":"m","choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}`

// wholeEngine answers every chat at once.
func wholeEngine(t testing.TB) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		page(200, "application/json", wholeAnswer)(w)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// secureConfig is a configuration of one pool; tls are its fields about TLS.
func secureConfig(backend, tls string) string {
	return conf("%spools: {only: {model: m, backends: [%q]}}\nroutes: [{model: r, target: only}]\n", tls, backend)
}

// fileFields are the fields of one listener's files.
func fileFields(setting, cert, key, clients string) string {
	s := fmt.Sprintf("%s: {cert_file: %q, key_file: %q", setting, cert, key)
	if clients != "" {
		s += fmt.Sprintf(", client_ca_file: %q", clients)
	}
	return s + "}\n"
}

// secureClient trusts an authority, speaks one version of HTTP, and presents certificates.
func secureClient(t testing.TB, ca *certtest.Authority, http2 bool, own ...tls.Certificate) *http.Client {
	var versions http.Protocols
	versions.SetHTTP1(!http2)
	versions.SetHTTP2(http2)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool, Certificates: own}, Protocols: &versions}, Timeout: time.Minute}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// chatAt sends a chat. The answer's body was read.
func chatAt(ctx context.Context, c *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+chat, strings.NewReader(chatBody("r")))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d: %.200s, %w", resp.StatusCode, text, err)
	}
	return resp, nil
}

// served is the common name of the certificate that a new connection gets.
func served(ctx context.Context, t testing.TB, ca *certtest.Authority, addr string) string {
	t.Helper()
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: ca.Pool}}).DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
}

// replace writes new files of a certificate, one after the other.
func replace(t *testing.T, cert, key string, by certtest.Pair) {
	t.Helper()
	certtest.Write(t, cert, by.Cert)
	certtest.Write(t, key, by.Key)
}

func TestACertificateIsReplacedForNewConnectionsAndABadOneIsNot(t *testing.T) {
	ca := certtest.New(t)
	cert, key := ca.Issue(t, certtest.Leaf{Name: "first"}).Files(t)
	p := apptest.ServeFile(t, apptest.File(t, "secret", secureConfig(wholeEngine(t), fileFields("tls", cert, key, ""))))
	kept := secureClient(t, ca, true)
	for _, step := range []struct {
		pair   certtest.Pair
		serves string
		status int
	}{
		{ca.Issue(t, certtest.Leaf{Name: "second", Ends: 24*time.Hour + time.Minute}), "second", http.StatusOK},
		{ca.Issue(t, certtest.Leaf{Name: "expired", Starts: -2 * time.Hour, Ends: -time.Hour}), "second", http.StatusUnprocessableEntity},
	} {
		replace(t, cert, key, step.pair)
		if status, _, body := apptest.Send(t, http.MethodPost, p.Admin+"/admin/reload", ""); status != step.status {
			t.Errorf("status %d: %s", status, body)
		}
		if name := served(t.Context(), t, ca, p.Address); name != step.serves {
			t.Errorf("%s is served, want %s", name, step.serves)
		}
		if _, err := chatAt(t.Context(), kept, p.URL); err != nil {
			t.Error(err)
		}
	}
	if w := strings.Join(p.Status(t).Warnings, "\n"); !strings.Contains(w, "tls: the certificate expires at 20") {
		t.Errorf("warnings: %s", w)
	}
}

func TestACertificateThatNoClientAcceptsIsRefusedAtTheStart(t *testing.T) {
	ca := certtest.New(t)
	good, expired := ca.Issue(t, certtest.Leaf{}), ca.Issue(t, certtest.Leaf{Starts: -2 * time.Hour, Ends: -time.Hour})
	goodCert, goodKey := good.Files(t)
	oldCert, oldKey := expired.Files(t)
	for name, c := range map[string]struct{ tls, want string }{
		"expired":                 {fileFields("tls", oldCert, oldKey, ""), "tls: cert_file: the certificate expired at 20"},
		"expired, admin":          {fileFields("admin_tls", oldCert, oldKey, ""), "admin_tls: cert_file: the certificate expired at 20"},
		"another key":             {fileFields("tls", goodCert, oldKey, ""), "tls: key_file: is no usable key of the certificate in cert_file"},
		"no certificate":          {fileFields("tls", "/nowhere/hunter2", goodKey, ""), "tls: cert_file: no such file or directory"},
		"no key":                  {fileFields("admin_tls", goodCert, "/nowhere/hunter2", ""), "admin_tls: key_file: no such file or directory"},
		"no authority of clients": {fileFields("tls", goodCert, goodKey, "/nowhere/hunter2"), "tls: client_ca_file: no such file or directory"},
		"":                        {fileFields("admin_tls", goodCert, goodKey, ""), ""}, // but it expires soon
	} {
		t.Run(name, func(t *testing.T) {
			f, err := config.Parse("replica.yaml", []byte(secureConfig("http://127.0.0.1:1", c.tls)))
			if err != nil {
				t.Fatal(err)
			}
			_, atStart := app.New(t.Context(), app.Options{File: f, Admin: f.Admin, Logger: zerolog.Nop()})
			found, atCheck := app.Check(f)
			if name == "" {
				if atStart != nil || atCheck != nil || len(found.Warnings) != 1 || !strings.HasPrefix(found.Warnings[0], "admin_tls: the certificate expires at 20") {
					t.Errorf("%v, %v, %q", atStart, atCheck, found.Warnings)
				}
				return
			}
			for _, err := range []error{atStart, atCheck} {
				if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("got %v, want %s", err, c.want)
				}
			}
		})
	}
}

func TestListenersWithClientAuthoritiesWantACertificateOfTheirs(t *testing.T) {
	ca, clients, strangers := certtest.New(t), certtest.New(t), certtest.New(t)
	cert, key := ca.Issue(t, certtest.Leaf{ForServer: true}).Files(t)
	p := apptest.Serve(t, secureConfig(wholeEngine(t), fileFields("tls", cert, key, clients.File)+fileFields("admin_tls", cert, key, clients.File)))
	for name, own := range map[string][]tls.Certificate{
		"none":                    nil,
		"one of another":          {strangers.Issue(t, certtest.Leaf{}).TLS(t)},
		"an expired one":          {clients.Issue(t, certtest.Leaf{Starts: -2 * time.Hour, Ends: -time.Hour}).TLS(t)},
		"one for servers alone":   {clients.Issue(t, certtest.Leaf{ForServer: true}).TLS(t)},
		"that of the listener's":  {ca.Issue(t, certtest.Leaf{}).TLS(t)},
		"one that they signed":    {clients.Issue(t, certtest.Leaf{}).TLS(t)},
		"one that they signed, 2": {clients.Issue(t, certtest.Leaf{Name: "other"}).TLS(t)},
	} {
		good := strings.HasPrefix(name, "one that they signed")
		for _, http2 := range []bool{false, true} {
			client := secureClient(t, ca, http2, own...)
			if _, err := chatAt(t.Context(), client, p.URL); (err == nil) != good {
				t.Errorf("public, HTTP/2 %t, %s: %v", http2, name, err)
			}
			resp, err := client.Get(p.Admin + "/livez")
			if err == nil {
				_ = resp.Body.Close()
			}
			if (err == nil) != good {
				t.Errorf("admin, HTTP/2 %t, %s: %v", http2, name, err)
			}
		}
	}
}
