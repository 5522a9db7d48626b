package http1

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// overTLS is a Transport that trusts a server.
func overTLS(t *testing.T, srv *httptest.Server) *Transport {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	return newTransport(t, Options{DialTLS: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		return (&tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}).DialContext(ctx, network, addr)
	}})
}

func TestAConnectionWithTLSIsReusedAndItsEndIsFound(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = w.Write(b)
	}))
	defer srv.Close()
	tr := overTLS(t, srv)
	reused := 0
	for _, size := range []int{0, 1, 5000, 100_000, 3 << 20, 10} {
		body := bytes.Repeat([]byte("a"), size)
		resp, got, err := post(t, tr, &Request{Base: srv.URL, Path: "/", Body: body})
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%d bytes: %d came, %v", size, len(got), err)
		}
		if resp.Reused {
			reused++
		}
	}
	if reused < 4 { // a session ticket may end one
		t.Errorf("reused %d times", reused)
	}
	srv.CloseClientConnections()
	eventually(t, "the end has arrived", func() bool {
		tr.pools.mu.Lock()
		defer tr.pools.mu.Unlock()
		for _, p := range tr.pools.byKey {
			return p.idle[0].look()
		}
		return true
	})
	resp, _, err := post(t, tr, &Request{Base: srv.URL, Path: "/"})
	if err != nil || resp.Reused {
		t.Errorf("behind the end: reused %v, %v", resp.Reused, err)
	}
}

func TestADeadlineThatPassesInTheMiddleOfARecordLosesNothing(t *testing.T) {
	next := make(chan struct{})
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, "abc")
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	}))
	defer srv.Close()
	tr := overTLS(t, srv)
	var resp Response
	if err := tr.Do(t.Context(), &Request{Base: srv.URL, Path: "/", Wait: time.Minute}, &resp); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := ""
	for p := make([]byte, 2); ; {
		resp.Body.SetWait(time.Minute)
		if c := resp.body.conn; c != nil {
			c.setReadBy(time.Now().Add(-time.Second)) // as if it had been set long ago
		}
		if len(got)%3 == 0 && got != "" {
			next <- struct{}{}
		}
		n, err := resp.Body.Read(p)
		got += string(p[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got != "abcabcabc" {
		t.Errorf("%q", got)
	}
}

func TestAnEarlyResponseIsFoundThroughTLS(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
		_, _ = conn.Read(make([]byte, 1))
		<-r.Context().Done()
	}))
	defer srv.Close()
	tr := overTLS(t, srv)
	resp, body, err := post(t, tr, &Request{Base: srv.URL, Path: "/", Body: make([]byte, 64<<20)})
	if err != nil || resp.Status != 413 || string(body) != "no" {
		t.Errorf("%d %q, %v", resp.Status, body, err)
	}
	tr.pools.mu.Lock()
	defer tr.pools.mu.Unlock()
	if len(tr.pools.byKey) != 0 {
		t.Error("the connection is kept")
	}
}
