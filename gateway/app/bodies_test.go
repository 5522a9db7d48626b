package app_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// surfaces are the ways by which a generation request reaches a backend.
var surfaces = []struct{ name, path, tier, stream string }{
	{"a judged chat", chat, "auto", `"stream":false`},
	{"a judged stream", chat, "auto", `"stream":true`},
	{"the draft", chat, "draft", `"stream":true`},
	{"the target", chat, "target", `"stream":false`},
	{"a completion", "/v1/completions", "auto", `"stream":false`},
	{"a completion of the target", "/v1/completions", "target", `"stream":true`},
}

// passedThrough are paths that pass through, with what a request to each holds.
var passedThrough = map[string]string{
	"/v1/embeddings": `"input":"hi"`,
	"/v1/responses":  `"top_logprobs":2,"input":"hi"`,
	"/v1/messages":   `"container":"c","max_tokens":9,"messages":[{"role":"user","content":"hi"}]`,
	"/tokenize":      `"prompt":"hi"`,
	"/detokenize":    `"tokens":[1]`,
	"/v1/rerank":     `"query":"a","documents":["b"]`,
	"/v1/score":      `"text_1":"a","text_2":["b"]`,
}

func surfaceBody(path string, members ...string) string {
	if path == chat {
		return chatBody("llama-3", members...)
	}
	return `{"model":"llama-3","prompt":"hi"` + strings.Join(append([]string{""}, members...), ",") + `}`
}

// TestABodyIsJudgedOnEveryWayToABackend has each way refuse a field, refuse what a backend would
// fetch, refuse what is no JSON, and strip a field. What else is judged, and how, tiers/openai tests.
func TestABodyIsJudgedOnEveryWayToABackend(t *testing.T) {
	g := newGuarded(t)
	refused := func(path, body, code string, headers ...string) {
		t.Helper()
		status, head, got := apptest.Send(t, "POST", g.URL+path, body, headers...)
		if path == "/v1/messages" { // its errors have another shape
			if status != http.StatusBadRequest || !strings.Contains(got, `"type":"invalid_request_error"`) || !strings.Contains(got, `"code":"`+code+`"`) {
				t.Errorf("%s: status %d: %s: %s", path, status, got, body)
			}
			return
		}
		if status != http.StatusBadRequest {
			t.Errorf("%s: status %d: %s: %s", path, status, got, body)
			return
		}
		checkError(t, head, got, &refusal{kind: "invalid_request_error", code: code})
	}
	stripped := func(path, body string, headers ...string) {
		t.Helper()
		apptest.Post(t, g.URL+path, body, headers...)
		got := g.taken(t)
		if _, there := got["kv_transfer_params"]; there || string(got["user"]) != `"kept \u00e9"` {
			t.Errorf("%s: a backend got %s", path, got)
		}
	}
	const image = `"input":[{"content":[{"type":"image_url","image_url":{"url":"http://169.254.169.254/"}}]}]`
	const members = `"kv_transfer_params":{"remote_host":"169.254.169.254"},"user":"kept \u00e9"`
	for _, s := range surfaces {
		refused(s.path, surfaceBody(s.path, s.stream, `"prompt_logprobs":1`), "unsupported_parameter", "X-Tier", s.tier)
		refused(s.path, surfaceBody(s.path, s.stream, image), "unsupported_parameter", "X-Tier", s.tier)
		refused(s.path, surfaceBody(s.path, s.stream)+"x", "invalid_json", "X-Tier", s.tier)
	}
	for path, input := range passedThrough {
		refused(path, `{"model":"llama-3",`+input+`,"prompt_logprobs":1}`, "unsupported_parameter")
		refused(path, `{"model":"llama-3",`+input, "invalid_json")
	}
	refused("/v1/embeddings", `{"model":"llama-3",`+image+`}`, "unsupported_parameter")
	g.untouched(t)
	for _, s := range surfaces {
		stripped(s.path, surfaceBody(s.path, s.stream, members), "X-Tier", s.tier)
	}
	for path, input := range passedThrough {
		stripped(path, `{"model":"llama-3",`+input+`,`+members+`}`)
	}
}

// taken is the one body that a backend received, by field.
func (g *guarded) taken(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	all := slices.Concat(g.draft.all(), g.target.all())
	g.draft.forget()
	g.target.forget()
	if len(all) != 1 {
		t.Fatalf("%d requests reached the backends, want 1", len(all))
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal([]byte(all[0].body), &got); err != nil {
		t.Fatalf("what reached the backend is no JSON: %v: %s", err, all[0].body)
	}
	return got
}

func TestNothingOfTheClientsHeadersReachesABackendButIdAndTrace(t *testing.T) {
	g := newGuarded(t)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, s := range surfaces {
		apptest.Post(t, g.URL+s.path, surfaceBody(s.path, s.stream), "X-Tier", s.tier, "X-Request-ID", "mine", "Traceparent", trace,
			"Authorization", "Bearer secret", "Cookie", "a=b", "X-Tenant-ID", "acme", "X-Priority", "high", "X-RAG-Hash", "abc",
			"X-Forwarded-For", "1.2.3.4", "X-Vllm-Priority", "-5", "X-Data-Parallel-Rank", "3", "Proxy-Authorization", "x")
		for _, r := range slices.Concat(g.draft.all(), g.target.all()) {
			for name := range r.header {
				if !slices.Contains([]string{"X-Request-Id", "Traceparent", "Content-Type", "Content-Length", "User-Agent"}, name) {
					t.Errorf("%s: header %s reached the backend: %v", s.name, name, r.header[name])
				}
			}
			if id := r.header.Get("X-Request-Id"); len(id) < 32 || strings.Contains(id, "mine") || r.header.Get("Traceparent") != trace {
				t.Errorf("%s: id %q, trace %q", s.name, r.header.Get("X-Request-Id"), r.header.Get("Traceparent"))
			}
		}
		g.draft.forget()
		g.target.forget()
	}
	apptest.Post(t, g.URL+chat, chatBody("llama-3"), "Traceparent", "00-zz-evil")
	for _, r := range slices.Concat(g.draft.all(), g.target.all()) {
		if r.header.Get("Traceparent") != "" {
			t.Errorf("a malformed trace reached the backend: %q", r.header.Get("Traceparent"))
		}
	}
}
