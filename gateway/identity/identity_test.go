package identity

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	acmeKey = "sk-acme-hunter2"
	betaKey = "sk-beta-hunter2"
)

func tenants() []Tenant {
	return []Tenant{
		{ID: "acme", KeySHA256: [][32]byte{sha256.Sum256([]byte("sk-old")), sha256.Sum256([]byte(acmeKey))}, MaxPriority: High, RPM: 600, TPM: 200000},
		{ID: "beta", KeySHA256: [][32]byte{sha256.Sum256([]byte(betaKey))}, MaxPriority: Low},
	}
}

// proxies are the networks of proxy.
func proxies() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fe80::/10")}
}

func resolver(t testing.TB, mode Mode) *Resolver {
	t.Helper()
	o := Options{Mode: mode, Tenants: tenants(), Default: Tenant{MaxPriority: High}}
	if mode != Keys {
		o.Unlisted = UnlistedDefault
	}
	if mode == TrustedHeaders {
		o.TrustedProxies = proxies()
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// request makes a request from remote with headers as "Name: value" lines.
func request(remote string, lines ...string) *http.Request {
	req := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	req.RemoteAddr = remote
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		req.Header.Add(name, value)
	}
	return req
}

const (
	local   = "127.0.0.1:5000"
	proxy   = "10.1.2.3:5000"
	outside = "203.0.113.9:5000"
)

func TestCallersAreToldApart(t *testing.T) {
	for _, tc := range []struct {
		name string
		mode Mode
		req  *http.Request
		want Caller
	}{
		{"open: nothing said", Open, request(local), Caller{Tenant: "default", Priority: Normal}},
		{"open: over IPv6", Open, request("[::1]:9"), Caller{Tenant: "default", Priority: Normal}},
		{"open: mapped IPv4", Open, request("[::ffff:127.0.0.1]:9"), Caller{Tenant: "default", Priority: Normal}},
		{"open: headers count", Open, request(local, "X-Tenant-ID: gamma", "X-Priority: high", "X-RAG-Hash: sha256:ab"),
			Caller{Tenant: "gamma", Priority: High, RAGHash: "sha256:ab"}},
		{"open: a known tenant has its ceiling and its rates", Open, request(local, "X-Tenant-ID: beta", "X-Priority: high"),
			Caller{Tenant: "beta", Priority: Low, Clamped: true}},
		{"open: an SDK's dummy key is no matter", Open, request(local, "Authorization: Bearer EMPTY"), Caller{Tenant: "default", Priority: Normal}},
		{"keys: the key decides", Keys, request(outside, "Authorization: Bearer "+acmeKey), Caller{Tenant: "acme", Priority: Normal, RPM: 600, TPM: 200000}},
		{"keys: an older key still counts", Keys, request(outside, "Authorization: bearer sk-old"), Caller{Tenant: "acme", Priority: Normal, RPM: 600, TPM: 200000}},
		{"keys: a key where Anthropic's clients send it", Keys, request(outside, "X-Api-Key: "+acmeKey), Caller{Tenant: "acme", Priority: Normal, RPM: 600, TPM: 200000}},
		{"keys: the header may lower", Keys, request(outside, "Authorization: Bearer "+acmeKey, "X-Priority: low"), Caller{Tenant: "acme", Priority: Low, RPM: 600, TPM: 200000}},
		{"keys: the header may agree", Keys, request(outside, "Authorization: Bearer "+acmeKey, "X-Tenant-ID: acme", "X-Priority: high"),
			Caller{Tenant: "acme", Priority: High, RPM: 600, TPM: 200000}},
		{"keys: a low tenant that asks for nothing is not clamped", Keys, request(outside, "Authorization: Bearer "+betaKey), Caller{Tenant: "beta", Priority: Low}},
		{"trusted: the proxy is believed", TrustedHeaders, request(proxy, "X-Tenant-ID: acme", "X-Priority: high"), Caller{Tenant: "acme", Priority: High, RPM: 600, TPM: 200000}},
		{"trusted: mapped IPv4", TrustedHeaders, request("[::ffff:10.1.2.3]:9", "X-Tenant-ID: x"), Caller{Tenant: "x", Priority: Normal}},
		{"trusted: an address with a zone", TrustedHeaders, request("[fe80::1%eth0]:9", "X-Tenant-ID: x"), Caller{Tenant: "x", Priority: Normal}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := resolver(t, tc.mode).Identify(tc.req)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestSpoofingFails is the table of the spoofings: each tries to be somebody
// else, or somebody more urgent.
func TestSpoofingFails(t *testing.T) {
	acme := "Authorization: Bearer " + acmeKey
	for _, tc := range []struct {
		name   string
		mode   Mode
		req    *http.Request
		kind   Kind
		header string
	}{
		{"1 no key", Keys, request(local, "X-Tenant-ID: acme"), Unauthorized, "Authorization"},
		{"2 a guessed key", Keys, request(outside, "Authorization: Bearer sk-guess"), Unauthorized, "Authorization"},
		{"3 a key of one tenant, the name of another", Keys, request(outside, acme, "X-Tenant-ID: beta"), Forbidden, "X-Tenant-ID"},
		{"4 two tenants, so that proxy and gateway read different ones", Keys, request(outside, acme, "X-Tenant-ID: acme", "X-Tenant-ID: beta"), BadHeader, "X-Tenant-ID"},
		{"5 two keys", Keys, request(outside, acme, "Authorization: Bearer "+betaKey), BadHeader, "Authorization"},
		{"6 a folded or joined line", TrustedHeaders, request(proxy, "X-Tenant-ID: acme evil"), BadHeader, "X-Tenant-ID"},
		{"7 a list", TrustedHeaders, request(proxy, "X-Tenant-ID: acme,beta"), BadHeader, "X-Tenant-ID"},
		{"8 letters that look alike", TrustedHeaders, request(proxy, "X-Tenant-ID: \u0430cme"), BadHeader, "X-Tenant-ID"},
		{"9 past the proxy", TrustedHeaders, request(outside, "X-Tenant-ID: acme"), Forbidden, ""},
		{"10 past the proxy in its name", TrustedHeaders, request(outside, "X-Forwarded-For: 10.1.2.3", "X-Real-IP: 10.1.2.3", "Forwarded: for=10.1.2.3"), Forbidden, ""},
		{"11 an open gateway reached from elsewhere", Open, request(outside, "X-Tenant-ID: acme"), Forbidden, ""},
		{"12 a priority that does not exist", Keys, request(outside, acme, "X-Priority: urgent"), BadHeader, "X-Priority"},
		{"13 two priorities", Keys, request(outside, acme, "X-Priority: low", "X-Priority: high"), BadHeader, "X-Priority"},
		{"14 an empty tenant", Open, request(local, "X-Tenant-ID: "), BadHeader, "X-Tenant-ID"},
		{"15 a long RAG hash", Open, request(local, "X-RAG-Hash: "+strings.Repeat("a", 129)), BadHeader, "X-Rag-Hash"},
		{"16 a key under another scheme", Keys, request(outside, "Authorization: Basic "+acmeKey), Unauthorized, "Authorization"},
		{"17 two keys in two headers", Keys, request(outside, acme, "X-Api-Key: "+betaKey), BadHeader, "X-Api-Key"},
		{"18 two bare keys", Keys, request(outside, "X-Api-Key: "+acmeKey, "X-Api-Key: "+betaKey), BadHeader, "X-Api-Key"},
		{"19 an empty bare key", Keys, request(outside, "X-Api-Key: "), Unauthorized, "X-Api-Key"},
		{"20 a socket without an address", TrustedHeaders, request("@", "X-Tenant-ID: acme"), Forbidden, ""},
		{"21 a guessed bare key", Keys, request(outside, "X-Api-Key: sk-guess"), Unauthorized, "X-Api-Key"},
		{"22 a bare key longer than any", Keys, request(outside, "X-Api-Key: "+strings.Repeat("a", maxKey+1)), Unauthorized, "X-Api-Key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := resolver(t, tc.mode).Identify(tc.req)
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Kind != tc.kind || http.CanonicalHeaderKey(e.Header) != http.CanonicalHeaderKey(tc.header) {
				t.Errorf("got %#v", err)
			}
			for _, secret := range []string{"hunter2", "guess", "evil", "urgent", "beta"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q repeats what the client sent", err)
				}
			}
		})
	}
}

// TestSpoofedHeadersOnTheWire sends what Go's server does not refuse itself.
func TestSpoofedHeadersOnTheWire(t *testing.T) {
	r := resolver(t, Open)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c, err := r.Identify(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = w.Write([]byte(c.Tenant))
	}))
	defer srv.Close()
	for raw, want := range map[string]string{
		"X-Tenant-ID: acme\r\n":                            "acme",
		"x-tenant-id:acme\r\n":                             "acme",
		"X-Tenant-ID: acme\r\n evil\r\n":                   "400",
		"X-Tenant-ID: acme\r\nx-TENANT-id: beta\r\n":       "400",
		"X-Tenant-ID: acme\r\nX-Tenant-ID: acme\r\n":       "400",
		"X-Tenant-ID: a\xffcme\r\n":                        "400",
		"X-Tenant-ID:\r\n":                                 "400",
		"X-Tenant-ID: " + strings.Repeat("a", 64) + "\r\n": strings.Repeat("a", 64),
		"X-Tenant-ID: " + strings.Repeat("a", 65) + "\r\n": "400",
		"X_Tenant_ID: acme\r\n":                            DefaultTenant,
	} {
		if got := exchange(t, srv.Listener.Addr().String(), raw); got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
	}
}

// FuzzIdentify checks that whatever the headers, an identity is safe to use and
// never above the ceiling.
func FuzzIdentify(f *testing.F) {
	f.Add("acme", "high", "abc", "Bearer "+acmeKey)
	f.Add("a\x00b", "\xff", strings.Repeat("x", 200), "Bearer")
	r, err := New(Options{Mode: Keys, Tenants: tenants()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, tenant, priority, rag, auth string) {
		req := request(outside)
		req.Header = http.Header{"X-Tenant-Id": {tenant}, "X-Priority": {priority}, "X-Rag-Hash": {rag}, "Authorization": {auth}}
		c, err := r.Identify(req)
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("%T", err)
			}
			return
		}
		if !valid(c.Tenant, 64) || !valid(c.RAGHash, 128) || c.Priority > r.table.Load().byID[c.Tenant].MaxPriority {
			t.Errorf("got %+v", c)
		}
	})
}
