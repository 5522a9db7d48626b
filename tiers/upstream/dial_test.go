package upstream

import (
	"context"
	"crypto/tls"
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

func TestTheBoundOfAConnectionIsLiveAndHoldsForTheHandshake(t *testing.T) {
	var bound atomic.Int64
	transport := newTransport(dialer{func() time.Duration { return time.Duration(bound.Load()) }}, nil)
	defer transport.CloseIdleConnections()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts by the backlog, and never shakes hands
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	for _, tc := range []struct {
		name, url string
		times     int // of the set bound
	}{
		{"connect", "http://" + deaf(t), 1},
		{"TLS", "https://" + mute.Addr().String(), 2},
	} {
		for _, d := range []time.Duration{50 * time.Millisecond, 350 * time.Millisecond} {
			bound.Store(int64(d))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tc.url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			resp, err := transport.RoundTrip(req)
			if err == nil {
				_ = resp.Body.Close()
				t.Fatalf("%s: it came up", tc.name)
			}
			want := d * time.Duration(tc.times)
			if took := time.Since(began); took < want/2 || took > want+3*time.Second {
				t.Errorf("%s: %v after %v, want %v", tc.name, err, took, want)
			}
		}
	}
}

func TestABackendsCertificateIsChecked(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	conn, err := dialer{}.dialTLS(context.Background(), "tcp", srv.Listener.Addr().String(), nil)
	if err == nil {
		_ = conn.Close()
	}
	var unknown *tls.CertificateVerificationError
	if !errors.As(err, &unknown) || !errors.As(err, &x509.UnknownAuthorityError{}) {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
}
