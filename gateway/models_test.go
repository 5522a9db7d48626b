package gateway

import (
	"net/http"
	"testing"

	"github.com/foregate/foregate/gateway/identity"
)

// get asks for a path in a tenant's name.
func (b *bench) get(t *testing.T, path, tenant string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Tenant-ID", tenant)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return b.answered(t, req)
}

func TestModelsAreShownInTheFormOfTheCallersAPI(t *testing.T) {
	b := limited(t, simulator(t).URL(), func(o *Options) {
		o.Replica = serving(RouteState{Route: "org/llama-3", Window: 32768}, RouteState{Route: "secret"})
	}, identity.Tenant{ID: "acme", Access: &identity.Access{Models: []string{"org/*"}}})
	forms := []struct {
		headers             []string
		begins, model, ends string
	}{
		{nil, `{"object":"list","data":[`, `{"id":"org/llama-3","object":"model","created":0,"owned_by":"foregate","max_model_len":32768,"context_length":32768,"context_window":32768}`, `]}`},
		{[]string{"Anthropic-Version", "2023-06-01"}, `{"data":[`, `{"type":"model","id":"org/llama-3","display_name":"org/llama-3","created_at":"1970-01-01T00:00:00Z","max_input_tokens":32768,"max_tokens":32768}`,
			`],"has_more":false,"first_id":"org/llama-3","last_id":"org/llama-3"}`},
	}
	for path, list := range map[string]bool{"/v1/models": true, "//v1/models/": true, "/v1/models/org/llama-3": false, "/v1//models/org%2Fllama-3/": false} {
		for _, c := range forms {
			want := c.model
			if list {
				want = c.begins + want + c.ends
			}
			if r := b.get(t, path, "acme", c.headers...); r.status != http.StatusOK || r.body != want {
				t.Errorf("%s with %v: %d %s, want %s", path, c.headers, r.status, r.body, want)
			}
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
