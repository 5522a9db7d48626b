package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/foregate/foregate/gateway/identity"
)

// TestWhatIsAcceptedCanBeBelieved holds the two readers of the section together:
// this package's and the one that does the work.
func TestWhatIsAcceptedCanBeBelieved(t *testing.T) {
	dir := t.TempDir()
	jwks, secret := filepath.Join(dir, "jwks.json"), filepath.Join(dir, "secret")
	for file, text := range map[string]string{
		jwks:   `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`, // RFC 8037, A.2
		secret: "0123456789abcdef0123456789abcdef",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const rest = "\npools: {p: {model: m, backends: ['http://h']}}\nroutes: [{model: m, target: p}]\n"
	for _, alg := range []string{
		"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "none", "HS256", "HS384", "HS512", "ES256K", "rs256", "Ed25519", "RSA1_5", "dir",
	} {
		_, here := Parse("f", fmt.Appendf(nil, "identity: {mode: jwt, jwt: {issuer: i, audience: a, jwks_file: %q, algorithms: [%s]}}%s", jwks, alg, rest))
		_, there := identity.New(identity.Options{Mode: identity.JWTs, JWT: identity.JWT{Issuer: "i", Audience: "a", JWKSFile: jwks, Algorithms: []string{alg}}})
		if (here == nil) != (there == nil) {
			t.Errorf("algorithm %s: %v here, %v there", alg, here, there)
		}
	}
	for _, id := range []string{"k1", "K_1.a:b-c", "", "a/b", "a b", "a;b", "a=b", "ä", "0123456789012345678901234567890123456789012345678901234567890123", "01234567890123456789012345678901234567890123456789012345678901234"} {
		_, here := Parse("f", fmt.Appendf(nil, "identity: {mode: signed, keys: [{id: %q, file: %q}]}%s", id, secret, rest))
		_, there := identity.New(identity.Options{Mode: identity.Signed, SigningKeys: []identity.SigningKey{{ID: id, File: secret}}})
		if (here == nil) != (there == nil) {
			t.Errorf("key %q: %v here, %v there", id, here, there)
		}
	}
	for _, mode := range []identity.Mode{identity.Signed, identity.JWTs, identity.Keys, identity.TrustedHeaders, identity.Open} {
		if m := string(mode); m != ModeSigned && m != ModeJWT && m != ModeKeys && m != ModeTrustedHeaders && m != ModeOpen {
			t.Errorf("mode %q has another name here", m)
		}
	}
}
