package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

// issuer holds the private keys of these tests, by kid. RSA keys are slow to
// make, so all tests share one issuer.
var issuer = sync.OnceValue(func() map[string]crypto.Signer {
	r, err1 := rsa.GenerateKey(rand.Reader, 2048)
	e, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, d, err3 := ed25519.GenerateKey(rand.Reader)
	_, other, err4 := ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		panic(err)
	}
	return map[string]crypto.Signer{"rsa": r, "ec": e, "ed": d, "ed2": other}
})

// secretOne may not occur in an error or a log line, nor may a part of it.
const secretOne = "canary-one-4f1d8e0b6a2c9d7e5f3a1b0c"

// noon is when the tests of tokens take place.
var noon = time.Unix(1_800_000_000, 0)

// holdsNoSecret checks that what is said holds neither a secret of these tests nor a part of a token that a client sent.
func holdsNoSecret(t *testing.T, said string, lines ...string) {
	t.Helper()
	if strings.Contains(said, "canary") {
		t.Errorf("%q holds a part of a secret", said)
	}
	for _, l := range lines {
		for _, part := range strings.FieldsFunc(l, func(c rune) bool { return strings.ContainsRune(" ;=.,", c) }) {
			if len(part) > 12 && strings.Contains(said, part) {
				t.Errorf("%q repeats what the client sent", said)
			}
		}
	}
}

// setKeys puts the public keys of these kids into force.
func setKeys(t testing.TB, r *Resolver, kids ...string) {
	t.Helper()
	var keys []jose.JSONWebKey
	for _, kid := range kids {
		keys = append(keys, jose.JSONWebKey{Key: issuer()[kid].Public(), KeyID: kid, Use: "sig"})
	}
	if err := r.SetKeySet([]byte(keySetText(t, keys...))); err != nil {
		t.Fatal(err)
	}
}

// jwtOptions are those of a gateway at noon that serves unlisted tenants.
func jwtOptions() Options {
	return Options{
		Mode: JWTs, Tenants: tenants(), Unlisted: UnlistedDefault, Default: Tenant{MaxPriority: High}, Now: func() time.Time { return noon },
		JWT: JWT{Issuer: "https://login.example.com/", Audience: "foregate", Algorithms: []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA},
			TenantClaim: "tenant", PriorityClaim: "priority"},
	}
}

// made is a resolver that knows all keys but ed2.
func made(t testing.TB, o Options) *Resolver {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	setKeys(t, r, "rsa", "ec", "ed")
	return r
}

// claims are good ones for a minute from noon, with changes; nil takes one away.
func claims(changes map[string]any) map[string]any {
	all := map[string]any{"iss": "https://login.example.com/", "aud": "foregate", "exp": noon.Unix() + 60, "sub": "user-1", "tenant": "acme"}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

// token signs claims; extra headers are as they are given, the key's id too.
func token(t testing.TB, alg jose.SignatureAlgorithm, key any, headers map[string]any, all map[string]any) string {
	t.Helper()
	o := &jose.SignerOptions{}
	for k, v := range headers {
		o.WithHeader(jose.HeaderKey(k), v)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return serialize(t, s, payload)
}

func serialize(t testing.TB, s jose.Signer, payload []byte) string {
	t.Helper()
	signed, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// edToken is a token of the issuer's Ed25519 key.
func edToken(t testing.TB, changes map[string]any) string {
	return token(t, jose.EdDSA, issuer()["ed"], map[string]any{"kid": "ed"}, claims(changes))
}

// unsignedToken is a token with this header and no signature.
func unsignedToken(t testing.TB, header string) string {
	t.Helper()
	payload, err := json.Marshal(claims(nil))
	if err != nil {
		t.Fatal(err)
	}
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(header)) + "." + enc(payload) + "."
}

func TestATokenNamesTenantAndCeiling(t *testing.T) {
	r := made(t, jwtOptions())
	acme := func(p Priority, clamped bool) Caller {
		return Caller{Tenant: "acme", Priority: p, Clamped: clamped, RPM: 600, TPM: 200000}
	}
	for _, tc := range []struct {
		name  string
		token string
		lines []string
		want  Caller
	}{
		{"RS256", token(t, jose.RS256, issuer()["rsa"], map[string]any{"kid": "rsa"}, claims(nil)), nil, acme(Normal, false)},
		{"ES256", token(t, jose.ES256, issuer()["ec"], map[string]any{"kid": "ec"}, claims(nil)), nil, acme(Normal, false)},
		{"EdDSA", edToken(t, nil), nil, acme(Normal, false)},
		{"a ceiling is not yet a request's class", edToken(t, map[string]any{"priority": "high"}), nil, acme(Normal, false)},
		{"the header may go up to the ceiling", edToken(t, map[string]any{"priority": "high"}), []string{"X-Priority: high"}, acme(High, false)},
		{"not beyond it", edToken(t, map[string]any{"priority": "low"}), []string{"X-Priority: high"}, acme(Low, true)},
		{"without one it is normal", edToken(t, nil), []string{"X-Priority: high"}, acme(Normal, true)},
		{"the header may lower", edToken(t, map[string]any{"priority": "high"}), []string{"X-Priority: low"}, acme(Low, false)},
		{"the list's ceiling holds too", edToken(t, map[string]any{"tenant": "beta", "priority": "high"}), []string{"X-Priority: high"}, Caller{Tenant: "beta", Priority: Low, Clamped: true}},
		{"a tenant that is not listed", edToken(t, map[string]any{"tenant": "gamma", "priority": "high"}), []string{"X-Priority: high"}, Caller{Tenant: "gamma", Priority: High}},
		{"one audience of several", edToken(t, map[string]any{"aud": []string{"other", "foregate"}}), nil, acme(Normal, false)},
		{"X-Tenant-ID may agree", edToken(t, nil), []string{"X-Tenant-ID: acme"}, acme(Normal, false)},
		{"it has just ended", edToken(t, map[string]any{"exp": noon.Unix() - 30}), nil, acme(Normal, false)},
		{"it is about to begin", edToken(t, map[string]any{"nbf": noon.Unix() + 30}), nil, acme(Normal, false)},
		{"where its keys are said to be is not asked", token(t, jose.EdDSA, issuer()["ed"], map[string]any{"kid": "ed", "jku": "http://127.0.0.1:1/keys", "x5u": "http://127.0.0.1:1/x"}, claims(nil)), nil, acme(Normal, false)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := r.Identify(request(outside, append(tc.lines, "Authorization: Bearer "+tc.token)...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestOtherClaimsMayNameTenantAndCeiling(t *testing.T) {
	o := jwtOptions()
	o.JWT.TenantClaim, o.JWT.PriorityClaim = "https://example.com/org", "class"
	r := made(t, o)
	auth := func(changes map[string]any) *http.Request {
		return request(outside, "Authorization: Bearer "+edToken(t, changes), "X-Priority: high")
	}
	got, err := r.Identify(auth(map[string]any{"https://example.com/org": "gamma", "class": "high", "priority": "low"}))
	if err != nil || got.Tenant != "gamma" || got.Priority != High {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := r.Identify(auth(nil)); err == nil {
		t.Errorf("another claim than the one that is named counts: %+v", got)
	}
}

// publicPEM is the public key of kid as text, which a careless verifier takes
// for the secret of an HMAC.
func publicPEM(t testing.TB, kid string) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(issuer()[kid].Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// TestSpoofingATokenFails is the table of the spoofings in mode jwt.
func TestSpoofingATokenFails(t *testing.T) {
	r := made(t, jwtOptions())
	keys := issuer()
	good := edToken(t, nil)
	part := strings.Split(good, ".")
	high := strings.Split(edToken(t, map[string]any{"priority": "high"}), ".")
	embedded := jose.JSONWebKey{Key: keys["ed2"].Public(), KeyID: "ed", Algorithm: "EdDSA"}
	by := func(kid string) map[string]any { return map[string]any{"kid": kid} }
	// twice says tenant twice, so that two readers see two tenants.
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: keys["ed"]}, (&jose.SignerOptions{}).WithHeader("kid", "ed"))
	if err != nil {
		t.Fatal(err)
	}
	twice := serialize(t, s, fmt.Appendf(nil, `{"iss":"https://login.example.com/","aud":"foregate","exp":%d,"tenant":"acme","tenant":"beta"}`, noon.Unix()+60))
	for _, tc := range []struct {
		name  string
		token string
	}{
		{"1 alg none", unsignedToken(t, `{"alg":"none","kid":"ed"}`)},
		{"2 alg None", unsignedToken(t, `{"alg":"None","kid":"ed"}`)},
		{"3 no alg", unsignedToken(t, `{"kid":"ed"}`)},
		{"4 HS256 with the public key as its secret", token(t, jose.HS256, publicPEM(t, "rsa"), by("rsa"), claims(nil))},
		{"5 HS256 with the bytes of the Ed25519 key", token(t, jose.HS256, []byte(keys["ed"].Public().(ed25519.PublicKey)), by("ed"), claims(nil))},
		{"6 an algorithm that is not on the list", token(t, jose.RS512, keys["rsa"], by("rsa"), claims(nil))},
		{"7 the algorithm of another key", token(t, jose.ES256, keys["ec"], by("rsa"), claims(nil))},
		{"8 somebody's own key under a known id", token(t, jose.EdDSA, keys["ed2"], by("ed"), claims(nil))},
		{"9 somebody's own key brought along", token(t, jose.EdDSA, keys["ed2"], map[string]any{"kid": "ed", "jwk": embedded}, claims(nil))},
		{"10 brought along without an id", token(t, jose.EdDSA, keys["ed2"], map[string]any{"jwk": embedded}, claims(nil))},
		{"11 a key to be fetched", token(t, jose.EdDSA, keys["ed2"], map[string]any{"kid": "ed2", "jku": "http://127.0.0.1:1/keys"}, claims(nil))},
		{"12 no key id", token(t, jose.EdDSA, keys["ed"], nil, claims(nil))},
		{"13 a key id that is a path", token(t, jose.EdDSA, keys["ed2"], by("../../../../dev/null"), claims(nil))},
		{"14 a key id that is a query", token(t, jose.EdDSA, keys["ed2"], by("ed' OR '1'='1"), claims(nil))},
		{"15 a key id that is a number", token(t, jose.EdDSA, keys["ed2"], map[string]any{"kid": 0}, claims(nil))},
		{"16 an extension that must be understood", token(t, jose.EdDSA, keys["ed"], map[string]any{"kid": "ed", "crit": []string{"canary"}, "canary": true}, claims(nil))},
		{"17 for another service", edToken(t, map[string]any{"aud": "other"})},
		{"18 for nobody", edToken(t, map[string]any{"aud": nil})},
		{"19 for a name that begins as ours", edToken(t, map[string]any{"aud": "foregate.evil.example"})},
		{"20 of another issuer", edToken(t, map[string]any{"iss": "https://login.evil.example/"})},
		{"21 of no issuer", edToken(t, map[string]any{"iss": nil})},
		{"22 expired", edToken(t, map[string]any{"exp": noon.Unix() - 31})},
		{"23 without an end", edToken(t, map[string]any{"exp": nil})},
		{"24 an end that is text", edToken(t, map[string]any{"exp": "never"})},
		{"25 not valid yet", edToken(t, map[string]any{"nbf": noon.Unix() + 31})},
		{"26 made in the future", edToken(t, map[string]any{"iat": noon.Unix() + 31})},
		{"27 a tenant with a line break", edToken(t, map[string]any{"tenant": "acme\nevil"})},
		{"28 a tenant in letters that look alike", edToken(t, map[string]any{"tenant": "\u0430cme"})},
		{"29 a tenant that is a list", edToken(t, map[string]any{"tenant": []string{"acme", "beta"}})},
		{"30 an empty tenant, with a sub", edToken(t, map[string]any{"tenant": ""})},
		{"31 a long tenant", edToken(t, map[string]any{"tenant": strings.Repeat("a", 65)})},
		{"45 a sub that is a tenant's name, without a tenant", edToken(t, map[string]any{"tenant": nil, "sub": "acme"})},
		{"46 a tenant of no kind, with a sub", edToken(t, map[string]any{"tenant": json.RawMessage("null"), "sub": "acme"})},
		{"32 nobody", edToken(t, map[string]any{"tenant": nil, "sub": nil})},
		{"33 a priority that does not exist", edToken(t, map[string]any{"priority": "urgent"})},
		{"34 a priority that is a number", edToken(t, map[string]any{"priority": 9})},
		{"35 a tenant given twice", twice},
		{"36 claims of one token, signature of another", part[0] + "." + high[1] + "." + part[2]},
		{"37 without its signature", part[0] + "." + part[1] + "."},
		{"38 two parts", part[0] + "." + part[1]},
		{"39 five parts, as of an encrypted token", good + ".." + part[2]},
		{"40 the long form", `{"payload":"` + part[1] + `","protected":"` + part[0] + `","signature":"` + part[2] + `"}`},
		{"41 longer than any", edToken(t, map[string]any{"x": strings.Repeat("a", maxToken)})},
		{"42 a token behind a token", good + " " + good},
		{"43 not a token", "sk-canary-hunter2"},
		{"44 only dots", ".."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := r.Identify(request(local, "Authorization: Bearer "+tc.token))
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Kind != Unauthorized || e.Header != headerAuthorization {
				t.Errorf("got %+v, %#v", c, err)
			}
			holdsNoSecret(t, fmt.Sprint(err), tc.token)
		})
	}
}

// FuzzToken checks that nobody is believed without a signature of the one key
// that is known, whatever is sent.
func FuzzToken(f *testing.F) {
	r := made(f, jwtOptions())
	setKeys(f, r, "ed")
	public := issuer()["ed"].Public().(ed25519.PublicKey)
	f.Add("Bearer " + edToken(f, nil))
	f.Add("Bearer " + edToken(f, map[string]any{"priority": "high", "tenant": "x\n"}))
	f.Add("Bearer " + unsignedToken(f, `{"alg":"none","kid":"ed"}`))
	f.Add("Bearer " + token(f, jose.EdDSA, issuer()["ed2"], map[string]any{"kid": "ed", "jwk": jose.JSONWebKey{Key: issuer()["ed2"].Public()}}, claims(nil)))
	f.Add("Bearer a.b.c")
	f.Fuzz(func(t *testing.T, auth string) {
		req := request(outside)
		req.Header["Authorization"] = []string{auth}
		c, err := r.Identify(req)
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("%T", err)
			}
			return
		}
		parts := strings.Split(auth[len("Bearer "):], ".")
		enc := base64.RawURLEncoding
		claims, err1 := enc.DecodeString(parts[1])
		signature, err2 := enc.DecodeString(parts[2])
		signedPart := parts[0] + "." + enc.EncodeToString(claims) // base64 has several spellings; the claims are what counts
		if err1 != nil || err2 != nil || !ed25519.Verify(public, []byte(signedPart), signature) {
			t.Errorf("%q is believed: %+v", auth, c)
		}
		if !valid(c.Tenant, 64) || c.Priority > High {
			t.Errorf("got %+v", c)
		}
	})
}
