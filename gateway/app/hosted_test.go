package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// hostedFile is a configuration whose route llama-3 has a hosted target. A dollar is 1,000 tokens.
func hostedFile(hosted, more string) string {
	return fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
pools:
  hosted: {model: theirs, engine: openai, backends: [%q], usd_per_million_input: 1000, usd_per_million_cached: 100, usd_per_million_output: 1000}
routes: [{model: llama-3, target: hosted}]
passthrough: [/v1/embeddings, /v1/responses]
tenants: [{id: acme, allow_external: true}, {id: shy}]
drain: {delay: 0s, grace: 5s}
%s`, hosted, more)
}

func TestAHostedTargetAnswersOnlyTenantsThatMayLeave(t *testing.T) {
	hosted := startHosted(t)
	r := apptest.Serve(t, hostedFile(hosted.URL, ""))
	for path, body := range map[string]string{
		chat: chatBody("llama-3", `"max_tokens":20`), "/v1/completions": `{"model":"llama-3","prompt":"hi"}`, "/v1/embeddings": `{"model":"llama-3","input":"hi"}`,
		"/v1/messages": `{"model":"llama-3","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`, "/v1/responses": `{"model":"llama-3","input":"hi"}`,
		"/v1/messages/count_tokens": `{"model":"llama-3","messages":[{"role":"user","content":"hi"}]}`,
	} {
		status, _, text := apptest.Send(t, http.MethodPost, r.URL+path, body, "X-Tenant-ID", "shy")
		if status != http.StatusForbidden || !strings.Contains(text, "external_not_allowed") && !strings.HasPrefix(path, "/v1/messages") {
			t.Errorf("%s: a tenant that may not leave: status %d: %s", path, status, text)
		}
	}
	for _, header := range []string{"X-Tier: draft", "X-Tier: target", "X-Acceptance-Mode: exact", "Cache-Control: no-store"} {
		name, value, _ := strings.Cut(header, ": ")
		if status, _, text := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3"), "X-Tenant-ID", "shy", name, value); status != http.StatusForbidden {
			t.Errorf("%s: status %d: %s", header, status, text)
		}
	}
	for tenant, lists := range map[string]bool{"shy": false, "acme": true} {
		_, _, models := apptest.Send(t, http.MethodGet, r.URL+"/v1/models", "", "X-Tenant-ID", tenant)
		if strings.Contains(models, "llama-3") != lists {
			t.Errorf("the models of %s: %s", tenant, models)
		}
	}
	if asked := hosted.asked(); len(asked) > 0 {
		t.Fatalf("the outsider was asked for %v", asked)
	}
	for _, stream := range []bool{false, true} {
		status, head, body := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", fmt.Sprintf(`"max_tokens":20,"stream":%t`, stream)), "X-Tenant-ID", "acme")
		if status != http.StatusOK || head.Get("X-Tier") != "target" || !strings.Contains(body, "outside") {
			t.Errorf("stream %t: status %d, tier %q: %s", stream, status, head.Get("X-Tier"), body)
		}
	}
	for _, path := range []string{"/v1/embeddings", "/v1/messages/count_tokens"} {
		status, _, text := apptest.Send(t, http.MethodPost, r.URL+path, `{"model":"llama-3","input":"hi","messages":[{"role":"user","content":"hi"}]}`, "X-Tenant-ID", "acme")
		if status != http.StatusNotFound {
			t.Errorf("%s is passed to a provider: status %d: %s", path, status, text)
		}
	}
	if asked := hosted.asked(); !slices.Equal(asked, []string{chat, chat}) {
		t.Errorf("it was asked for %v", asked)
	}
}

func TestAHostedTargetGetsNothingOfOursAndIsPaidByTheToken(t *testing.T) {
	hosted := startHosted(t)
	r := apptest.Serve(t, hostedFile(hosted.URL, ""))
	for _, stream := range []bool{false, true} {
		status, _, body := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", `"cache_salt":"s"`, `"priority":3`, `"top_k":3`, fmt.Sprintf(`"max_tokens":20,"stream":%t`, stream)),
			"X-Tenant-ID", "acme", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "X-Request-ID", "mine", "X-Priority", "low", "Cache-Control", "no-store")
		if status != http.StatusOK {
			t.Fatalf("status %d: %s", status, body)
		}
		hosted.gotOnly(t, "model", "messages", "max_tokens", "stream", "stream_options")
	}
	if page := r.Metrics(t); !strings.Contains(page, `foregate_cost_usd_total{tier="target"} 0.03`+"\n") { // twice 10 + 5 tokens
		t.Error(apptest.Lines(page, "foregate_cost_usd"))
	}
}

// TestAProvidersLimitIsBackpressure: a request that is told to wait does so, one that has no time for that is told how long,
// and the breaker stays closed.
func TestAProvidersLimitIsBackpressure(t *testing.T) {
	hosted := startHosted(t)
	r := apptest.Serve(t, hostedFile(hosted.URL, ""))
	hosted.limit(1, "2")
	began := time.Now()
	status, _, body := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", `"max_tokens":20`), "X-Tenant-ID", "acme")
	if took := time.Since(began); status != http.StatusOK || took < 1900*time.Millisecond || len(hosted.asked()) != 2 {
		t.Errorf("after %v: status %d, asked %v: %s", took, status, hosted.asked(), body)
	}
	hosted.limit(1000, "40")
	for try := range 3 {
		status, head, body := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", fmt.Sprintf(`"max_tokens":2%d`, try)), "X-Tenant-ID", "acme")
		if status != http.StatusServiceUnavailable || !strings.HasPrefix(head.Get("X-Shed-Reason"), "provider_limit;pool=hosted;") || head.Get("Retry-After") == "" {
			t.Fatalf("try %d: status %d, %q, Retry-After %q: %s", try, status, head.Get("X-Shed-Reason"), head.Get("Retry-After"), body)
		}
	}
	if asked := hosted.asked(); len(asked) != 3 {
		t.Errorf("a provider that wants no request for 40 s was asked %d times", len(asked)-2)
	}
	if page := apptest.Lines(r.Metrics(t), "foregate_breaker_state"); !strings.Contains(page, `,pool="hosted"} 0`) {
		t.Error(page)
	}
}
