package config

import (
	"fmt"
	"testing"

	"github.com/foregate/foregate/gateway/identity"
)

// TestWhatIsAcceptedCanBeBelieved holds the two readers of the section together:
// this package's and the one that does the work.
func TestWhatIsAcceptedCanBeBelieved(t *testing.T) {
	const rest = "\ntenants: [{id: a}]\npools: {p: {model: m, backends: ['http://h']}}\nroutes: [{model: m, target: p}]\n"
	for _, alg := range []string{
		"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "none", "HS256", "HS384", "HS512", "ES256K", "rs256", "Ed25519", "RSA1_5", "dir",
	} {
		_, here := Parse("f", fmt.Appendf(nil, "identity: {mode: jwt, jwt: {issuer: i, audience: a, jwks_file: f, algorithms: [%s]}}%s", alg, rest))
		_, there := identity.New(identity.Options{Mode: identity.JWTs, JWT: identity.JWT{Issuer: "i", Audience: "a", Algorithms: []string{alg}}})
		if (here == nil) != (there == nil) {
			t.Errorf("algorithm %s: %v here, %v there", alg, here, there)
		}
	}
	if identity.UnlistedRefuse != UnlistedRefuse || identity.UnlistedDefault != UnlistedDefault {
		t.Error("what becomes of unlisted tenants has another name here")
	}
	for _, mode := range []identity.Mode{identity.JWTs, identity.Keys, identity.TrustedHeaders, identity.Open} {
		if m := string(mode); m != ModeJWT && m != ModeKeys && m != ModeTrustedHeaders && m != ModeOpen {
			t.Errorf("mode %q has another name here", m)
		}
	}
}
