package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// canary is the secret of these tests. Nothing that a gateway says may hold it.
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

func TestCheckReadsWhatTheIdentitySectionNames(t *testing.T) {
	good := secretFile(t, "k1 "+canary+"\n")
	set, _ := apptest.KeySet(t, canary, "acme")
	for name, tc := range map[string]struct {
		identity string
		status   int
		want     string // of what is told beside the file's name
	}{
		"a file that is not there":      {fmt.Sprintf("{mode: jwt, jwt: {issuer: i, audience: a, jwks_file: %q}}", "/"+canary), 1, "identity.jwt.jwks_file: no such file or directory"},
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
