package app_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// canary is the secret of these tests. Nothing
// that a gateway says may hold it.
const canary = "canary-5f2c7a9be1d34c60a8f1b2c3d4e5f607"

// identified is a gateway over recording backends with this identity section.
func identified(t *testing.T, identity string) *guarded {
	t.Helper()
	g := &guarded{draft: newRecorder(t), target: newRecorder(t)}
	g.Replica = apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
identity: %s
pools:
  small: {model: small, backends: [%q]}
  large: {model: large, backends: [%q]}
routes: [{model: llama-3, draft: small, target: large, same_tokenizer: true}]
tenants: [{id: acme}]
drain: {delay: 0s, grace: 2s}
`, identity, g.draft.url, g.target.url))
	g.Ready(t)
	return g
}

func TestAGatewayOfTokensBelievesNothingElse(t *testing.T) {
	set, token := apptest.KeySet(t, canary, "acme")
	g := identified(t, fmt.Sprintf(`{mode: jwt, jwt: {issuer: "https://login.example.com/", audience: foregate, jwks_file: %q}}`, secretFile(t, set)))
	_, signature, _ := strings.Cut(token[strings.IndexByte(token, '.')+1:], ".")
	for name, auth := range map[string]string{
		"no token": "", "a key": "Bearer " + canary, "no signature": "Bearer " + strings.TrimSuffix(token, signature), "another scheme": "Basic " + token,
		"alg none": "Bearer " + base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"k1"}`)) + token[strings.IndexByte(token, '.'):],
	} {
		if status, _, body := apptest.Send(t, http.MethodPost, g.URL+chat, chatBody("llama-3"), "Authorization", auth); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	g.untouched(t)
	apptest.Post(t, g.URL+chat, chatBody("llama-3"), "Authorization", "Bearer "+token, "X-Priority", "high")
	quiet(t, g, "acme", "low", canary, signature)
}

// quiet checks that the last request was logged under its tenant and class, and
// that neither the log nor the metrics hold a secret.
func quiet(t *testing.T, g *guarded, tenant, class string, secrets ...string) {
	t.Helper()
	apptest.Eventually(t, "the request is in the log", func() bool {
		return slices.ContainsFunc(strings.Split(g.Log.String(), "\n"), func(line string) bool {
			return strings.Contains(line, fmt.Sprintf("%q:%q", "tenant", tenant)) && strings.Contains(line, fmt.Sprintf("%q:%q", "priority", class))
		})
	})
	output := g.Log.String() + g.Metrics(t)
	for _, s := range secrets {
		if strings.Contains(output, s) {
			t.Errorf("a secret is told: %s", output)
		}
	}
}
