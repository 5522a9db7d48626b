package gateway

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/identity"
)

// keyed is a gateway, not started, that believes the key sk-right and writes its log to log.
func keyed(t *testing.T, log *strings.Builder) *bench {
	t.Helper()
	who, err := identity.New(identity.Options{
		Mode: identity.Keys, Tenants: []identity.Tenant{{ID: "acme", KeySHA256: [][32]byte{sha256.Sum256([]byte("sk-right"))}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return makeBench(t, "http://127.0.0.1:1", func(o *Options) {
		o.Identity, o.Logger = who, zerolog.New(log)
		o.Now = func() time.Time { return time.Unix(1_800_000_000, 0) }
		o.Limits.Balancers = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
}

// from asks for the list of models from an address with a key.
func (b *bench) from(address, key string) *httptest.ResponseRecorder {
	return b.fromWith(address, "Authorization", "Bearer "+key)
}

// fromWith asks for the list of models from an address with a header; "" and "Bearer " are none.
func (b *bench) fromWith(address, header, value string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, "/v1/models", nil)
	req.RemoteAddr = net.JoinHostPort(address, "5000")
	if strings.TrimPrefix(value, "Bearer ") != "" {
		req.Header.Set(header, value)
	}
	w := httptest.NewRecorder()
	b.public.server.Handler.ServeHTTP(w, req)
	return w
}

func TestWrongKeysAreToldToWaitAndRightOnesNever(t *testing.T) {
	same := func(int) string { return "sk-wrong" }
	many := func(i int) string { return fmt.Sprint("sk-", i) }
	long := func(int) string { return "sk-" + strings.Repeat("x", 600) }
	for name, tc := range map[string]struct {
		address string
		key     func(i int) string
		waits   bool
		bare    bool // the key is in X-Api-Key
	}{
		"one key from one address":              {"192.0.2.1", same, true, false},
		"many keys from one address":            {"192.0.2.1", many, true, false},
		"no key":                                {"192.0.2.1", func(int) string { return "" }, true, false},
		"one key behind a balancer":             {"10.1.2.3", same, true, false},
		"many keys behind a balancer":           {"10.1.2.3", many, false, false},
		"many keys from a proxy on the machine": {"127.0.0.1", many, false, false},
		"one bare key from one address":         {"192.0.2.1", same, true, true},
		"one bare key behind a balancer":        {"10.1.2.3", same, true, true},
		"many bare keys behind a balancer":      {"10.1.2.3", many, false, true},
		"one bare key from the machine":         {"127.0.0.1", same, true, true},
		"one long bare key from the machine":    {"127.0.0.1", long, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			b := keyed(t, &log)
			header, scheme := "Authorization", "Bearer "
			if tc.bare {
				header, scheme = "X-Api-Key", ""
			}
			var refused, waits int
			for i := range 200 {
				switch w := b.fromWith(tc.address, header, scheme+tc.key(i)); w.Code {
				case http.StatusUnauthorized:
					refused++
					if _, _, message := (reply{body: w.Body.String()}).says(); !strings.HasPrefix(message, header+": ") || strings.Contains(message, "missing") && tc.key(i) != "" {
						t.Fatalf("the key in %s: %s", header, message)
					}
				case http.StatusTooManyRequests:
					waits++
					if w.Header().Get("Connection") != "close" {
						t.Fatal("the connection stays open")
					}
					if w.Header().Get("Retry-After") != "1" || w.Header().Get("X-Should-Retry") != "false" || !strings.Contains(w.Body.String(), "too_many_failures") {
						t.Fatalf("got %v %s", w.Header(), w.Body)
					}
				default:
					t.Fatalf("got %d %s", w.Code, w.Body)
				}
				if w := b.fromWith(tc.address, header, scheme+"sk-right"); w.Code != http.StatusOK {
					t.Fatalf("the right key: %d %s", w.Code, w.Body)
				}
			}
			if tc.waits && (refused != 5 || waits != 195) || !tc.waits && waits > 0 {
				t.Errorf("%d refused, %d told to wait", refused, waits)
			}
			lines := strings.Count(log.String(), "\n") - strings.Count(log.String(), `"code":200`)
			if lines > 21 { // 20 in a second, and one that a source is told to wait
				t.Errorf("%d lines of 200 failures in a second", lines)
			}
			if strings.Contains(log.String(), "sk-") {
				t.Errorf("a key is told: %s", log.String())
			}
			if told := strings.Contains(log.String(), `"remote":"`+tc.address); told != tc.waits {
				t.Errorf("the log tells the address: %v, want %v", told, tc.waits)
			}
		})
	}
}

func TestAnAddressFailsInEachOfItsForms(t *testing.T) {
	for name, tc := range map[string]struct {
		fails        []string
		waits, other string
	}{
		"IPv4":                    {slices.Repeat([]string{"192.0.2.1"}, 5), "::ffff:192.0.2.1", "192.0.2.2"},
		"IPv6, a network of many": {[]string{"2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4", "2001:db8::5"}, "2001:db8::ffff", "2001:db8:0:1::1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := keyed(t, &strings.Builder{})
			for i, address := range tc.fails {
				if w := b.from(address, ""); w.Code != http.StatusUnauthorized {
					t.Fatalf("failure %d: %d %s", i+1, w.Code, w.Body)
				}
			}
			if w := b.from(tc.waits, ""); w.Code != http.StatusTooManyRequests {
				t.Errorf("%s is another client: %d", tc.waits, w.Code)
			}
			if w := b.from(tc.other, ""); w.Code != http.StatusUnauthorized {
				t.Errorf("%s is the same client: %d", tc.other, w.Code)
			}
		})
	}
}

func TestOnlyCredentialsAreCounted(t *testing.T) {
	var log strings.Builder
	b := keyed(t, &log)
	for range 20 {
		req := httptest.NewRequest(http.MethodGet, "/v1/models", nil)
		req.RemoteAddr = "192.0.2.1:5000"
		req.Header.Set("Authorization", "Bearer sk-right")
		req.Header.Set("X-Tenant-ID", "beta")
		w := httptest.NewRecorder()
		if b.public.server.Handler.ServeHTTP(w, req); w.Code != http.StatusForbidden {
			t.Fatalf("a right key that names another tenant: %d, want 403 each time", w.Code)
		}
	}
}
