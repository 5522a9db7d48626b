package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// canary is the secret that signers and gateway share in these tests. Nothing
// that a gateway says may hold it.
const canary = "canary-5f2c7a9be1d34c60a8f1b2c3d4e5f607"

// secretFile writes text as a file that its owner alone may read.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// keySetOf is the key set with this one key, and a token that it signed.
func keySetOf(t *testing.T, tenant string) (set, token string) {
	t.Helper()
	key := ed25519.NewKeyFromSeed([]byte(canary)[:ed25519.SeedSize])
	enc := base64.RawURLEncoding.EncodeToString
	set = fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","use":"sig","x":%q}]}`, enc(key.Public().(ed25519.PublicKey)))
	claims, err := json.Marshal(map[string]any{"iss": "https://login.example.com/", "aud": "foregate", "tenant": tenant, "priority": "low", "exp": time.Now().Unix() + 300})
	if err != nil {
		t.Fatal(err)
	}
	result := enc([]byte(`{"alg":"EdDSA","kid":"k1"}`)) + "." + enc(claims)
	return set, result + "." + enc(ed25519.Sign(key, []byte(result)))
}

func TestCheckReadsWhatTheIdentitySectionNames(t *testing.T) {
	good := secretFile(t, "k1 "+canary+"\n")
	open := secretFile(t, "k1 "+canary)
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	set, _ := keySetOf(t, "acme")
	for name, tc := range map[string]struct {
		identity string
		status   int
		want     string // of what is told beside the file's name
	}{
		"good secrets":                  {fmt.Sprintf("{mode: signed, signing_keys_file: %q}", good), 0, ""},
		"some that everybody may read":  {fmt.Sprintf("{mode: signed, signing_keys_file: %q}", open), 0, "warning: identity.signing_keys_file: every user of this machine may read the file"},
		"a short one":                   {fmt.Sprintf("{mode: signed, signing_keys_file: %q}", secretFile(t, "k1 "+canary[:20])), 1, "identity.signing_keys_file: line 1: the secret has 20 characters; want 32"},
		"a file that is not there":      {fmt.Sprintf("{mode: signed, signing_keys_file: %q}", "/"+canary), 1, "identity.signing_keys_file: no such file or directory"},
		"a good key set":                {fmt.Sprintf("{mode: jwt, jwt: {issuer: i, audience: a, jwks_file: %q}}", secretFile(t, set)), 0, ""},
		"a secret in the key set's way": {fmt.Sprintf("{mode: jwt, jwt: {issuer: i, audience: a, jwks_file: %q}}", good), 1, "identity.jwt.jwks_file: is no JSON Web Key Set"},
		"no audience":                   {fmt.Sprintf("{mode: jwt, jwt: {issuer: i, jwks_file: %q}}", secretFile(t, set)), 1, "identity.jwt.audience: missing"},
	} {
		t.Run(name, func(t *testing.T) {
			file := configFile(t, `pools: {p: {model: m, backends: ["http://h:1"]}}
routes: [{model: m, target: p}]
tenants: [{id: acme}]
identity: `+tc.identity+"\n")
			status, _, errs := call(t, "check", file)
			if status != tc.status || !strings.Contains(errs, tc.want) || (tc.want == "") != (errs == "") || strings.Contains(errs, "canary") {
				t.Errorf("status %d, want %d with …%s…: %q", status, tc.status, tc.want, errs)
			}
		})
	}
}
