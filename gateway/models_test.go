package gateway

import (
	"encoding/json"
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
		o.Models = func() []Model { return []Model{{ID: "org/llama-3"}, {ID: "secret"}} }
	}, identity.Tenant{ID: "acme", Access: &identity.Access{Models: []string{"org/*"}}})
	for _, path := range []string{"/v1/models", "/v1/models/org/llama-3", "/v1/models/org%2Fllama-3"} {
		for _, c := range []struct {
			headers []string
			member  string
			want    any
		}{
			{nil, "object", "model"},
			{[]string{"Anthropic-Version", "2023-06-01"}, "type", "model"},
		} {
			r := b.get(t, path, "acme", c.headers...)
			var said map[string]any
			if err := json.Unmarshal([]byte(r.body), &said); err != nil || r.status != http.StatusOK {
				t.Fatalf("%s: %d %s %v", path, r.status, r.body, err)
			}
			if list, ok := said["data"].([]any); ok {
				if len(list) != 1 {
					t.Fatalf("%s: %s", path, r.body)
				}
				said, _ = list[0].(map[string]any)
			}
			if said["id"] != "org/llama-3" || said[c.member] != c.want {
				t.Errorf("%s with %v: %s", path, c.headers, r.body)
			}
		}
	}
	for path, want := range map[string]int{"/v1/models/secret": http.StatusForbidden, "/v1/models/org/none": http.StatusNotFound} {
		if r := b.get(t, path, "acme"); r.status != want {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}
