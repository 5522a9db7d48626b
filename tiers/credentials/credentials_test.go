package credentials

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a transport that keeps what it is sent, and counts when its idle connections are closed.
type recorder struct {
	got    []*http.Request
	closed int
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.got = append(r.got, req)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func (r *recorder) CloseIdleConnections() { r.closed++ }

func TestARequestGetsTheCredentialsInForceAndIsNotChanged(t *testing.T) {
	plain := &recorder{}
	all := NewTransports(func(*tls.Config) http.RoundTripper { return plain })
	live := new(Live)
	own := all.Of(live.Now)
	for _, key := range []string{"", "one", "two"} {
		if key != "" {
			live.Set(&Credentials{Headers: []Field{{Name: "Authorization", Value: key}}})
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "mine")
		if _, err := own.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		want := key
		if key == "" {
			want = "mine"
		}
		if got := plain.got[len(plain.got)-1].Header.Get("Authorization"); got != want || req.Header.Get("Authorization") != "mine" {
			t.Errorf("sent %q, want %q; the request has %q", got, want, req.Header.Get("Authorization"))
		}
	}
}

func TestATransportPerIdentityIsKeptWhileItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := map[*tls.Config]*recorder{}
		all := NewTransports(func(c *tls.Config) http.RoundTripper { made[c] = &recorder{}; return made[c] })
		used, dropped := &tls.Config{MinVersion: tls.VersionTLS13}, &tls.Config{MinVersion: tls.VersionTLS13}
		send := func(c *tls.Config) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://x/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := all.RoundTrip(req, &Credentials{TLS: c}); err != nil {
				t.Fatal(err)
			}
		}
		send(dropped)
		for range 10 {
			send(used)
			time.Sleep(keepUnused / 4)
		}
		send(nil)
		for range 100 { // new identities
			send(&tls.Config{MinVersion: tls.VersionTLS13})
			send(used)
			time.Sleep(keepUnused / 4)
		}
		if n := len(all.byTLS); n > 10 {
			t.Errorf("%d transports are kept", n)
		}
		if made[dropped].closed != 1 || made[used].closed != 0 || len(made[used].got) != 110 {
			t.Errorf("closed %d times and %d times, %d requests", made[dropped].closed, made[used].closed, len(made[used].got))
		}
		all.CloseIdleConnections()
		if made[nil].closed != 1 || made[used].closed != 1 {
			t.Errorf("at the end closed %d and %d times", made[nil].closed, made[used].closed)
		}
	})
}

func TestWhatIsARefusalOfCredentials(t *testing.T) {
	for status, want := range map[int]bool{200: false, 400: false, 401: true, 403: true, 404: false, 407: false, 500: false} {
		if r := RefusedBy(status); (r != nil) != want || r != nil && !strings.Contains(r.Error(), fmt.Sprint(status)) {
			t.Errorf("%d: %v", status, r)
		}
	}
	verify := &tls.CertificateVerificationError{Err: errors.New("x509: expired")}
	alert := &net.OpError{Op: "remote error", Err: tls.AlertError(42)}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("x"), ""},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, ""},
		{fmt.Errorf("read: %w", &Refusal{Status: 401}), "status 401"},
		{&url.Error{Op: "Get", URL: "https://secret", Err: fmt.Errorf("handshake: %w", verify)}, "x509: expired"},
		{&url.Error{Op: "Get", URL: "https://secret", Err: alert}, "bad certificate"},
	} {
		r := RefusalOf(tc.err)
		if (r != nil) != (tc.want != "") || r != nil && (!strings.Contains(r.Error(), tc.want) || strings.Contains(r.Error(), "secret")) {
			t.Errorf("%v: got %v, want %q", tc.err, r, tc.want)
		}
	}
}
