package upstream

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/engine"
)

// deaf is the address of a listener whose backlog is full, so that no connection to it
// comes up.
func deaf(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 8 {
		conn, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
			return addr
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Skip("this system's backlog is never full")
	return ""
}

func TestTheBoundOfAConnectionIsLive(t *testing.T) {
	var bound atomic.Int64
	transport := newTransport(dialer{func() time.Duration { return time.Duration(bound.Load()) }}, nil)
	url := "http://" + deaf(t)
	for _, d := range []time.Duration{50 * time.Millisecond, 350 * time.Millisecond} {
		bound.Store(int64(d))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		resp, err := transport.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
			t.Fatal("it came up")
		}
		if took := time.Since(began); took < d/2 || took > d+3*time.Second {
			t.Errorf("%v after %v, want %v", err, took, d)
		}
	}
}

func TestABackendsCertificateIsChecked(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	_, err := newClient(t, Options{}).Open(t.Context(), at(srv.URL, &engine.Forward{Path: "/v1/x", Into: new(engine.Forwarded)}))
	if f := failureOf(t, err); f.Kind != engine.Unauthorized || !errors.As(f, &x509.UnknownAuthorityError{}) {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
}
