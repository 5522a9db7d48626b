package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/identity"
)

func TestAModelThatATenantMayNotUseIsRefusedOnEveryPath(t *testing.T) {
	s := &scripted{kind: plainJSON, body: `{"usage":{"prompt_tokens":1,"total_tokens":1}}`}
	b := passing(t, s, identity.Tenant{ID: "acme", MaxPriority: identity.High, RPM: 1, Access: &identity.Access{Models: []string{"code-*"}}})
	for path, members := range map[string]string{
		"/v1/chat/completions": `"messages":[{"role":"user","content":"hi"}]`, "/v1/completions": `"prompt":"hi"`,
		"/v1/embeddings": `"input":"a"`, "/v1/responses": `"input":"a"`, "/v1/messages": `"max_tokens":9,"messages":[{"role":"user","content":"a"}]`, "/tokenize": `"prompt":"a"`,
		"/v1/rerank": `"query":"a"`, "/v1/score": `"text_1":"a"`,
	} {
		for _, model := range []string{"llama-3", "no-such-model"} { // nobody learns which of them exists
			got := b.to(t, path, "acme", `{"model":"`+model+`",`+members+`}`)
			kind, code, message := got.says()
			if got.status != http.StatusForbidden || kind != "permission_error" || code != "model_not_allowed" || !strings.Contains(message, model) {
				t.Errorf("%s of %s: %d %s", path, model, got.status, got.body)
			}
			if got.head.Get("Connection") == "close" {
				t.Errorf("%s: a tenant with access loses its connection", path)
			}
		}
	}
	if n := len(s.all()); n > 0 {
		t.Errorf("%d requests reached the backend", n)
	}
	// None of them counted against the tenant's one request per minute.
	if got := b.to(t, "/v1/embeddings", "acme", `{"model":"code-none","input":"a"}`); got.status != http.StatusNotFound {
		t.Errorf("an allowed name without a route: %d %s", got.status, got.body)
	}
	if got := b.to(t, "/v1/embeddings", "other", `{"model":"llama-3","input":"a"}`); got.status != http.StatusOK {
		t.Errorf("a tenant without restrictions: %d %s", got.status, got.body)
	}
}
