package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The secrets of these tests; no error and no log line may hold a part of them.
const (
	secretOne = "canary-one-4f1d8e0b6a2c9d7e5f3a1b0c"
	secretTwo = "canary-two-9c3e5d7f1a0b2c4d6e8f0a1b"
)

// noon is when the tests of signatures and tokens take place.
var noon = time.Unix(1_800_000_000, 0)

// signedResolver believes what the secrets k1, k2, … sign, at noon.
func signedResolver(t testing.TB, secrets ...string) *Resolver {
	t.Helper()
	r, err := New(Options{
		Mode: Signed, Tenants: tenants(), Unlisted: UnlistedDefault, Default: Tenant{MaxPriority: High}, Now: func() time.Time { return noon },
	})
	if err != nil {
		t.Fatal(err)
	}
	setSecrets(t, r, secrets...)
	return r
}

// setSecrets puts the secrets k1, k2, … into force; one that is "" is left out.
func setSecrets(t testing.TB, r *Resolver, secrets ...string) {
	t.Helper()
	var keys []SigningKey
	for i, s := range secrets {
		if s != "" {
			keys = append(keys, SigningKey{ID: fmt.Sprintf("k%d", i+1), Secret: []byte(s)})
		}
	}
	if err := r.SetSigningKeys(keys); err != nil {
		t.Fatal(err)
	}
}

// stamp signs what is said for a request, as the package comment tells.
func stamp(secret, signedPart, method, path string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(signedPart + "\n" + method + "\n" + path))
	return "X-Identity: " + signedPart + ";sig=" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

const chat = "/v1/chat/completions" // where request sends its requests

// say is what a signer says of a tenant, for a minute from noon.
func say(tenant, priority string) string {
	return fmt.Sprintf("v1;t=%s;p=%s;exp=%d;kid=k1", tenant, priority, noon.Unix()+60)
}

// until is what a signer says that ends so long after noon.
func until(d time.Duration) string {
	return fmt.Sprintf("v1;t=acme;p=normal;exp=%d;kid=k1", noon.Add(d).Unix())
}

func TestASignatureNamesTenantAndPriority(t *testing.T) {
	r := signedResolver(t, secretOne, secretTwo)
	post := func(signedPart string) string { return stamp(secretOne, signedPart, http.MethodPost, chat) }
	for _, tc := range []struct {
		name string
		req  *http.Request
		want Caller
	}{
		{"its priority is the request's", request(outside, post(say("gamma", "high"))), Caller{Tenant: "gamma", Priority: High}},
		{"a low one too", request(outside, post(say("gamma", "low"))), Caller{Tenant: "gamma", Priority: Low}},
		{"the header may lower it", request(outside, post(say("gamma", "high")), "X-Priority: low"), Caller{Tenant: "gamma", Priority: Low}},
		{"the header may not raise it", request(outside, post(say("gamma", "low")), "X-Priority: high"), Caller{Tenant: "gamma", Priority: Low, Clamped: true}},
		{"a listed tenant has its rates", request(outside, post(say("acme", "high"))), Caller{Tenant: "acme", Priority: High, RPM: 600, TPM: 200000}},
		{"a listed tenant keeps under its own ceiling", request(outside, post(say("beta", "high"))), Caller{Tenant: "beta", Priority: Low}},
		{"X-Tenant-ID may agree", request(outside, post(say("gamma", "normal")), "X-Tenant-ID: gamma"), Caller{Tenant: "gamma", Priority: Normal}},
		{"an SDK's dummy key is no matter", request(outside, post(say("gamma", "normal")), "Authorization: Bearer EMPTY"), Caller{Tenant: "gamma", Priority: Normal}},
		{"it has just ended, by a clock ahead", request(outside, post(until(-30*time.Second))), Caller{Tenant: "acme", Priority: Normal, RPM: 600, TPM: 200000}},
		{"it was made for 300 s by a clock ahead", request(outside, post(until(330*time.Second))), Caller{Tenant: "acme", Priority: Normal, RPM: 600, TPM: 200000}},
		{"the second secret counts as well", request(outside, stamp(secretTwo, strings.Replace(say("gamma", "normal"), "k1", "k2", 1), http.MethodPost, chat)), Caller{Tenant: "gamma", Priority: Normal}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := r.Identify(tc.req)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAQueryAndEscapesLeaveTheSignedPathAsItArrived(t *testing.T) {
	r := signedResolver(t, secretOne)
	for target, path := range map[string]string{"/v1/models?a=1?b": "/v1/models", "/v1/%2e%2E/a%2Fb": "/v1/%2e%2E/a%2Fb"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.RemoteAddr = outside
		req.Header.Set(HeaderIdentity, strings.TrimPrefix(stamp(secretOne, say("acme", "low"), http.MethodGet, path), "X-Identity: "))
		if _, err := r.Identify(req); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestSpoofingASignatureFails is the table of the spoofings in mode signed.
func TestSpoofingASignatureFails(t *testing.T) {
	r := signedResolver(t, secretOne)
	good := stamp(secretOne, say("acme", "low"), http.MethodPost, chat)
	signed := func(signedPart string) string { return stamp(secretOne, signedPart, http.MethodPost, chat) }
	raised := strings.Replace(good, "p=low", "p=high", 1)
	type try struct {
		name  string
		kind  Kind
		lines []string
	}
	tries := []try{
		{"1 no signature", Unauthorized, []string{"X-Tenant-ID: acme"}},
		{"2 another secret", Unauthorized, []string{stamp(secretTwo, say("acme", "low"), http.MethodPost, chat)}},
		{"3 an empty secret", Unauthorized, []string{stamp("", say("acme", "low"), http.MethodPost, chat)}},
		{"4 for another path", Unauthorized, []string{stamp(secretOne, say("acme", "low"), http.MethodPost, "/v1/completions")}},
		{"5 for another method", Unauthorized, []string{stamp(secretOne, say("acme", "low"), http.MethodGet, chat)}},
		{"6 a priority changed after signing", Unauthorized, []string{raised}},
		{"7 a tenant changed after signing", Unauthorized, []string{strings.Replace(good, "t=acme", "t=beta", 1)}},
		{"8 an end changed after signing", Unauthorized, []string{strings.Replace(good, "exp=18", "exp=19", 1)}},
		{"9 replayed after its end", Unauthorized, []string{signed(until(-31 * time.Second))}},
		{"10 good for too long", Unauthorized, []string{signed(until(331 * time.Second))}},
		{"11 good for ever", Unauthorized, []string{signed("v1;t=acme;p=low;exp=9223372036854775807;kid=k1")}},
		{"12 an end beyond all numbers", Unauthorized, []string{signed("v1;t=acme;p=low;exp=92233720368547758070;kid=k1")}},
		{"13 a negative end", Unauthorized, []string{signed("v1;t=acme;p=low;exp=-1;kid=k1")}},
		{"14 another version", Unauthorized, []string{signed("v2" + strings.TrimPrefix(say("acme", "low"), "v1"))}},
		{"15 a key that is not known", Unauthorized, []string{signed(strings.Replace(say("acme", "low"), "k1", "k9", 1))}},
		{"16 a key that is a path", BadHeader, []string{signed(strings.Replace(say("acme", "low"), "k1", "../../dev/null", 1))}},
		{"17 a key of dots", Unauthorized, []string{signed(strings.Replace(say("acme", "low"), "k1", "..", 1))}},
		{"18 no key", Unauthorized, []string{signed(strings.Replace(say("acme", "low"), "k1", "", 1))}},
		{"19 two of them", BadHeader, []string{good, signed(say("beta", "low"))}},
		{"20 the same twice", BadHeader, []string{good, good}},
		{"21 folded, which Go joins with a space", BadHeader, []string{strings.Replace(good, ";p=", "; p=", 1)}},
		{"22 beyond ASCII", BadHeader, []string{strings.Replace(good, "t=acme", "t=\u0430cme", 1)}},
		{"23 a line break", BadHeader, []string{signed(strings.Replace(say("acme", "low"), "acme", "acme\nPOST", 1))}},
		{"24 a list", BadHeader, []string{good + "," + strings.TrimPrefix(good, "X-Identity: ")}},
		{"25 a field more", Unauthorized, []string{signed(say("acme", "low") + ";p=high")}},
		{"26 fields in another order", Unauthorized, []string{signed(fmt.Sprintf("v1;p=low;t=acme;exp=%d;kid=k1", noon.Unix()+60))}},
		{"27 a field twice", Unauthorized, []string{signed(strings.Replace(say("acme", "low"), "p=low", "p=low;p=high", 1))}},
		{"28 a tenant that ends the field", Unauthorized, []string{signed(strings.Replace(say("acme", "low"), "acme", "acme;p=high", 1))}},
		{"29 a priority that does not exist", Unauthorized, []string{signed(say("acme", "urgent"))}},
		{"30 no tenant", Unauthorized, []string{signed(say("", "low"))}},
		{"31 half a signature", Unauthorized, []string{good[:len(good)-22]}},
		{"32 another spelling of the same signature", BadHeader, []string{good + "\t"}},
		{"33 a padded signature", Unauthorized, []string{good + "="}},
		{"34 two signatures", Unauthorized, []string{good + ";sig=" + good[len(good)-43:]}},
		{"35 the name of another tenant", Forbidden, []string{good, "X-Tenant-ID: beta"}},
		{"36 longer than any", BadHeader, []string{signed(say(strings.Repeat("a", 512), "low"))}},
		{"37 empty", BadHeader, []string{"X-Identity: "}},
		{"38 under a name with underscores", Unauthorized, []string{strings.Replace(good, "X-Identity", "X_Identity", 1)}},
	}
	for _, tc := range tries {
		t.Run(tc.name, func(t *testing.T) {
			c, err := r.Identify(request(local, tc.lines...))
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Kind != tc.kind {
				t.Errorf("got %+v, %#v", c, err)
			}
			holdsNoSecret(t, fmt.Sprint(err), tc.lines...)
		})
	}
}

// holdsNoSecret checks that what is said holds neither a secret of these tests
// nor a signature that a client sent.
func holdsNoSecret(t *testing.T, signedPart string, lines ...string) {
	t.Helper()
	if strings.Contains(signedPart, "canary") {
		t.Errorf("%q holds a part of a secret", signedPart)
	}
	for _, l := range lines {
		for _, part := range strings.FieldsFunc(l, func(c rune) bool { return strings.ContainsRune(" ;=.,", c) }) {
			if len(part) > 12 && strings.Contains(signedPart, part) {
				t.Errorf("%q repeats what the client sent", signedPart)
			}
		}
	}
}

// TestOneByteChangedAnywhereUndoesASignature leaves nothing of the header
// outside of the signature, and the signature no second spelling.
func TestOneByteChangedAnywhereUndoesASignature(t *testing.T) {
	r := signedResolver(t, secretOne)
	value := strings.TrimPrefix(stamp(secretOne, say("acme", "low"), http.MethodPost, chat), "X-Identity: ")
	for i := range len(value) {
		for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_;=.:") {
			if value[i] == c {
				continue
			}
			changed := value[:i] + string(c) + value[i+1:]
			if c, err := r.Identify(request(outside, "X-Identity: "+changed)); err == nil {
				t.Errorf("%q is believed: %+v", changed, c)
			}
		}
	}
}

// TestSecretsAreReplacedWithoutARefusal goes through a change of secrets step by
// step: at each, what is signed with the old and with the next one is sent to
// gateways that have been given the step and to those that have not.
func TestSecretsAreReplacedWithoutARefusal(t *testing.T) {
	first := signedResolver(t, secretOne)
	both := signedResolver(t, secretOne, secretTwo)
	last := signedResolver(t, "", secretTwo)
	old := stamp(secretOne, say("acme", "low"), http.MethodPost, chat)
	next := stamp(secretTwo, strings.Replace(say("acme", "low"), "k1", "k2", 1), http.MethodPost, chat)
	for _, step := range []struct {
		gateways []*Resolver
		sent     []string
	}{
		{[]*Resolver{first, both}, []string{old}},       // the next secret reaches one gateway after another
		{[]*Resolver{both, both}, []string{old, next}},  // one signer after another goes over to it
		{[]*Resolver{both, last}, []string{next, next}}, // the old one is removed
	} {
		for _, g := range step.gateways {
			for _, s := range step.sent {
				if _, err := g.Identify(request(outside, s)); err != nil {
					t.Errorf("refused: %v", err)
				}
			}
		}
	}
	if _, err := last.Identify(request(outside, old)); err == nil {
		t.Error("the old secret counts after it was removed")
	}
}

func TestSecretsRotateInOneGateway(t *testing.T) {
	r := signedResolver(t, secretOne)
	old := stamp(secretOne, say("acme", "low"), http.MethodPost, chat)
	next := stamp(secretTwo, strings.Replace(say("acme", "low"), "k1", "k2", 1), http.MethodPost, chat)
	for _, step := range []struct {
		secrets   []string
		old, next bool
	}{{[]string{secretOne}, true, false}, {[]string{secretOne, secretTwo}, true, true}, {[]string{"", secretTwo}, false, true}} {
		setSecrets(t, r, step.secrets...)
		_, err1 := r.Identify(request(outside, old))
		_, err2 := r.Identify(request(outside, next))
		if (err1 == nil) != step.old || (err2 == nil) != step.next {
			t.Errorf("%d secrets: old %v, next %v", len(step.secrets), err1, err2)
		}
	}
}

func TestSecretsThatCannotProtectAreRefused(t *testing.T) {
	one, two := []byte(secretOne), []byte(secretTwo)
	for name, tc := range map[string]struct {
		keys []SigningKey
		want string
	}{
		"none":             {nil, "needs a key"},
		"no id":            {[]SigningKey{{Secret: one}}, "id is 1–64"},
		"a bad id":         {[]SigningKey{{ID: "../k1", Secret: one}}, "id is 1–64"},
		"an id twice":      {[]SigningKey{{ID: "k1", Secret: one}, {ID: "k1", Secret: two}}, "key k1 is given twice"},
		"one secret twice": {[]SigningKey{{ID: "k1", Secret: one}, {ID: "k2", Secret: one}}, "keys k1 and k2 are the same secret"},
		"no secret":        {[]SigningKey{{ID: "k1"}}, "has 0 bytes; want 32"},
		"a short one":      {[]SigningKey{{ID: "k1", Secret: one[:31]}}, "has 31 bytes; want 32"},
	} {
		t.Run(name, func(t *testing.T) {
			r := signedResolver(t, secretOne)
			err := r.SetSigningKeys(tc.keys)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v, want …%s…", err, tc.want)
			}
			if _, err := r.Identify(request(outside, stamp(secretOne, say("acme", "low"), http.MethodPost, chat))); err != nil {
				t.Errorf("the last good secret no longer counts: %v", err)
			}
		})
	}
}

// FuzzSigned checks that nobody is believed whose header is not signed for this
// method and path, whatever is sent.
func FuzzSigned(f *testing.F) {
	r := signedResolver(f, secretOne)
	for _, signedPart := range []string{say("acme", "low"), say("gamma", "high"), until(-time.Hour), "v1;t=;p=;exp=;kid=", "v1;t=a;p=low;exp=1;kid=k1;x=y"} {
		f.Add(strings.TrimPrefix(stamp(secretOne, signedPart, http.MethodPost, chat), "X-Identity: "), http.MethodPost, chat)
	}
	f.Add("v1;t=a;p=low;exp=+1;kid=k1;sig=", "", "")
	f.Add("\x00;\xff", "GET", "/a\nb")
	f.Fuzz(func(t *testing.T, value, method, path string) {
		req := request(outside)
		req.Method, req.URL.Path, req.URL.RawPath = method, path, ""
		req.Header[HeaderIdentity] = []string{value}
		c, err := r.Identify(req)
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("%T", err)
			}
			return
		}
		signedPart := value[:strings.LastIndex(value, ";sig=")]
		if stamp(secretOne, signedPart, method, req.URL.EscapedPath()) != "X-Identity: "+value {
			t.Errorf("%q is believed for %s %s", value, method, path)
		}
		if !strings.HasPrefix(signedPart, "v1;t="+c.Tenant+";p=") || !valid(c.Tenant, 64) || c.Priority > High {
			t.Errorf("%q gives %+v", value, c)
		}
	})
}
