package identity

import (
	"net/http"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// BenchmarkIdentify is what telling the caller costs, by mode.
func BenchmarkIdentify(b *testing.B) {
	jwts := made(b, jwtOptions())
	bearer := func(alg jose.SignatureAlgorithm, kid string) *http.Request {
		return request(outside, "Authorization: Bearer "+token(b, alg, issuer()[kid], map[string]any{"kid": kid}, claims(nil)))
	}
	for _, m := range []struct {
		name string
		r    *Resolver
		req  *http.Request
	}{
		{"open", resolver(b, Open), request(local, "X-Tenant-ID: acme", "X-Priority: low")},
		{"keys", resolver(b, Keys), request(outside, "Authorization: Bearer "+acmeKey)},
		{"trusted_headers", resolver(b, TrustedHeaders), request(proxy, "X-Tenant-ID: acme", "X-Priority: low")},
		{"jwt RS256", jwts, bearer(jose.RS256, "rsa")},
		{"jwt ES256", jwts, bearer(jose.ES256, "ec")},
		{"jwt EdDSA", jwts, bearer(jose.EdDSA, "ed")},
		{"jwt, key not known", jwts, bearer(jose.EdDSA, "ed2")},
	} {
		b.Run(m.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = m.r.Identify(m.req)
			}
		})
	}
}
