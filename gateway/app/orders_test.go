package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// guardedGateway is a process with the token of its operator.
func guardedGateway(t *testing.T, token string) *apptest.Replica {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("ann operate "+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sim := vllmsim.Start(t, vllmsim.Options{Model: "m", TimeScale: 20})
	p := apptest.Serve(t, fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nadmin_tokens_file: %s\nredis: {url: \"redis://%s\"}\npools: {only: {model: m, backends: [%q]}}\nroutes: [{model: llama-3, target: only}]\ndrain: {delay: 0s, grace: 1s}\n", file, miniredis.RunT(t).Addr(), sim.URL()))
	p.Ready(t)
	return p
}

// orderAs sends an order, as a browser or a tool would, and returns the status and the answer.
func orderAs(t *testing.T, url, body string, headers map[string]string) (status int, answer map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for key, value := range headers {
		req.Header.Set(key, value)
	}
	resp, err := apptest.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return resp.StatusCode, answer
}

func TestConsoleOrdersAreTakenFromItsOwnPagesOnly(t *testing.T) {
	const token = "the-token-of-operators-long-enough-to-be-one"
	p := guardedGateway(t, token)
	own := "Bearer " + token
	other := guardedGateway(t, "the-token-of-the-operators-of-another-gateway")
	for _, c := range []struct {
		name    string
		headers map[string]string
		want    int
	}{
		{"nothing", map[string]string{}, 401},
		{"a page without a token", map[string]string{"Origin": p.Admin}, 401},
		{"the token in a cookie", map[string]string{"Cookie": "token=" + token, "Origin": p.Admin}, 401},
		{"another Origin", map[string]string{"Authorization": own, "Origin": "http://evil.example"}, 403},
		{"another port", map[string]string{"Authorization": own, "Origin": other.Admin}, 403},
		{"no Origin", map[string]string{"Authorization": own, "Origin": "null"}, 403},
		{"another site", map[string]string{"Authorization": own, "Sec-Fetch-Site": "cross-site"}, 403},
		{"a tool with another token", map[string]string{"Authorization": "Bearer another token, which is as long as that"}, 401},
		{"a page of its own", map[string]string{"Authorization": own, "Origin": p.Admin, "Sec-Fetch-Site": "same-origin"}, 200},
		{"a tool with the token", map[string]string{"Authorization": own}, 200},
	} {
		body := fmt.Sprintf(`{"set":{"retry.max_retries":%q},"why":%q}`, "3", c.name)
		if c.want == http.StatusOK {
			body = strings.Replace(body, `"why"`, `"dry_run":true,"why"`, 1)
		}
		if status, answer := orderAs(t, p.Admin+"/admin/settings", body, c.headers); status != c.want {
			t.Errorf("%s: status %d %v, want %d", c.name, status, answer, c.want)
		}
	}
	if _, text := apptest.Get(t, p.Admin+"/admin/settings/log"); strings.Contains(text, "retry.max_retries") {
		t.Errorf("something was changed: %s", text)
	}
}
