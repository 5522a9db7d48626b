package app_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// canary is the secret that signers and gateway share in these tests. Nothing
// that a gateway says may hold it.
const canary = "canary-5f2c7a9be1d34c60a8f1b2c3d4e5f607"

// signer says who calls, as a load balancer does.
func signer(tenant, priority, method, path string, expires time.Time) string {
	signed := fmt.Sprintf("v1;t=%s;p=%s;exp=%d;kid=k1", tenant, priority, expires.Unix())
	mac := hmac.New(sha256.New, []byte(canary))
	_, _ = fmt.Fprintf(mac, "%s\n%s\n%s", signed, method, path)
	return signed + ";sig=" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

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

// TestASignedGatewayBelievesNothingElse sends raw probes of X-Identity to a
// gateway that serves only what is signed.
func TestASignedGatewayBelievesNothingElse(t *testing.T) {
	g := identified(t, fmt.Sprintf("{mode: signed, signing_keys_file: %q}", secretFile(t, "k1 "+canary)))
	soon := time.Now().Add(time.Minute)
	good := signer("acme", "low", http.MethodPost, chat, soon)
	for _, tc := range []struct {
		name   string
		status int
		code   string
		lines  []string
	}{
		{"nothing", 401, "invalid_api_key", nil},
		{"trusted headers", 401, "invalid_api_key", []string{"X-Tenant-ID: acme", "X-Priority: high"}},
		{"a key", 401, "invalid_api_key", []string{"Authorization: Bearer " + canary}},
		{"twice", 400, "bad_header", []string{"X-Identity: " + good, "X-Identity: " + signer("beta", "high", http.MethodPost, chat, soon)}},
		{"twice in other letters", 400, "bad_header", []string{"X-Identity: " + good, "x-IDENTITY: " + good}},
		{"folded", 400, "bad_header", []string{"X-Identity: " + strings.Replace(good, ";exp", "\r\n ;exp", 1)}},
		{"beyond ASCII", 400, "bad_header", []string{"X-Identity: " + strings.Replace(good, "acme", "\xe4cme", 1)}},
		{"a list", 400, "bad_header", []string{"X-Identity: " + good + ", " + good}},
		{"empty", 400, "bad_header", []string{"X-Identity:"}},
		{"under a name with underscores", 401, "invalid_api_key", []string{"X_Identity: " + good}},
		{"for another path", 401, "invalid_api_key", []string{"X-Identity: " + signer("acme", "low", http.MethodPost, "/v1/completions", soon)}},
		{"for another method", 401, "invalid_api_key", []string{"X-Identity: " + signer("acme", "low", http.MethodGet, chat, soon)}},
		{"after its end", 401, "invalid_api_key", []string{"X-Identity: " + signer("acme", "low", http.MethodPost, chat, soon.Add(-5*time.Minute))}},
		{"for longer than 300 s", 401, "invalid_api_key", []string{"X-Identity: " + signer("acme", "low", http.MethodPost, chat, soon.Add(10*time.Minute))}},
		{"of another tenant", 403, "forbidden", []string{"X-Identity: " + good, "X-Tenant-ID: beta"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := raw(t, g.Address, request(chat, []byte(chatBody("llama-3")), append(slices.Clone(tc.lines), "Connection: close")...))
			if len(got.replies) != 1 || got.replies[0].status != tc.status || !strings.Contains(got.replies[0].body, `"code":"`+tc.code+`"`) {
				t.Errorf("want one response with status %d and code %s: %+v", tc.status, tc.code, got.replies)
			}
		})
	}
	g.untouched(t)
	apptest.Post(t, g.URL+chat+"?a=b", chatBody("llama-3"), "X-Identity", good, "X-Priority", "high")
	for _, r := range slices.Concat(g.draft.all(), g.target.all()) {
		if r.header.Get("X-Identity") != "" {
			t.Error("X-Identity reached a backend")
		}
	}
	if status, _, body := apptest.Send(t, http.MethodGet, g.URL+"/v1/models", "", "X-Identity", signer("acme", "low", http.MethodGet, "/v1/models", soon)); status != http.StatusOK {
		t.Errorf("the list of models: %d %s", status, body)
	}
	quiet(t, g, "acme", "low", canary, good[len(good)-43:])
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
