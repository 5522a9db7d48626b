package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/identity"
)

func TestAModelThatATenantMayNotUseIsRefusedOnEveryPath(t *testing.T) {
	s := &scripted{kind: plainJSON, body: `{"usage":{"prompt_tokens":1,"total_tokens":1}}`}
	b := passing(t, s, identity.Tenant{ID: "acme", MaxPriority: identity.High, RPM: 1, Access: identity.Access{Models: []string{"code-*"}}})
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

func TestTheListOfModelsHasWhatTheTenantMayUse(t *testing.T) {
	tenant := func(id string, models ...string) identity.Tenant {
		return identity.Tenant{ID: id, MaxPriority: identity.High, Access: identity.Access{Models: models}}
	}
	b := limited(t, simulator(t).URL(), func(o *Options) {
		o.Replica = serving(RouteState{Route: "code-a"}, RouteState{Route: "llama-3"}, RouteState{Route: "code-b"})
	},
		tenant("coder", "code-*"), tenant("chatter", "llama-3", "gone"), tenant("nobody", "gone"), tenant("all"))
	for id, want := range map[string][]string{
		"coder": {"code-a", "code-b"}, "chatter": {"llama-3"}, "nobody": nil, "all": {"code-a", "llama-3", "code-b"}, "unlisted": {"code-a", "llama-3", "code-b"},
	} {
		var list struct{ Data []struct{ ID string } }
		got := b.get(t, "/v1/models", id)
		if err := json.Unmarshal([]byte(got.body), &list); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range list.Data {
			ids = append(ids, m.ID)
		}
		if got.status != http.StatusOK || !slices.Equal(ids, want) {
			t.Errorf("%s: %d %v, want %v", id, got.status, ids, want)
		}
	}
}

func TestModelsAreShownWithTheirContextLength(t *testing.T) {
	b := limited(t, simulator(t).URL(), func(o *Options) {
		o.Replica = serving(RouteState{Route: "org/llama-3", Window: 32768}, RouteState{Route: "secret"})
	}, identity.Tenant{ID: "acme", Access: identity.Access{Models: []string{"org/*"}}})
	const model = `{"id":"org/llama-3","object":"model","created":0,"owned_by":"foregate","max_model_len":32768,"context_length":32768,"context_window":32768}`
	const list = `{"data":[` + model + `],"object":"list"}`
	for path, want := range map[string]string{"/v1/models": list, "//v1/models/": list, "/v1/models/org/llama-3": model, "/v1//models/org%2Fllama-3/": model} {
		if r := b.get(t, path, "acme"); r.status != http.StatusOK || r.body != want {
			t.Errorf("%s: %d %s, want %s", path, r.status, r.body, want)
		}
	}
	for path, want := range map[string]int{"/v1/models/secret": http.StatusForbidden, "/v1/models/org/none": http.StatusNotFound} {
		if r := b.get(t, path, "acme"); r.status != want {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

func TestSlashesThatClientsAddAreNoOtherPath(t *testing.T) {
	b := limited(t, simulator(t).URL(), nil, identity.Tenant{ID: "acme"})
	const body = `{"model":"llama-3","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`
	for path, want := range map[string]int{
		"//v1/chat/completions": http.StatusOK, "/v1//chat/completions": http.StatusOK, "/v1/chat/completions/": http.StatusOK, "///v1/messages//": http.StatusOK,
		"/v1/v1/chat/completions": http.StatusNotFound, "//": http.StatusNotFound,
	} {
		if r := b.to(t, path, "acme", body); r.status != want {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}
