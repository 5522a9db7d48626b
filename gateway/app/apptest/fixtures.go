package apptest

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// LoadedBackend starts a backend that reports its KV usage and answers no request.
func LoadedBackend(t testing.TB, model string, usage float64) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.Error(w, "busy", http.StatusTeapot)
			return
		}
		_, _ = fmt.Fprintf(w, "vllm:num_requests_running{model_name=%q} 1\nvllm:num_requests_waiting{model_name=%q} 0\nvllm:kv_cache_usage_perc{model_name=%q} %g\n", model, model, model, usage)
	}))
	t.Cleanup(srv.Close)
	return srv
}

// KeySet returns a JSON Web Key Set with the one key that seed gives (32 bytes or more), and a token for the tenant that
// the key signed.
func KeySet(t testing.TB, seed, tenant string) (set, token string) {
	t.Helper()
	key := ed25519.NewKeyFromSeed([]byte(seed)[:ed25519.SeedSize])
	enc := base64.RawURLEncoding.EncodeToString
	set = fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","use":"sig","x":%q}]}`, enc(key.Public().(ed25519.PublicKey)))
	claims, err := json.Marshal(map[string]any{"iss": "https://login.example.com/", "aud": "foregate", "tenant": tenant, "priority": "low", "exp": time.Now().Unix() + 300})
	if err != nil {
		t.Fatal(err)
	}
	signed := enc([]byte(`{"alg":"EdDSA","kid":"k1"}`)) + "." + enc(claims)
	return set, signed + "." + enc(ed25519.Sign(key, []byte(signed)))
}
