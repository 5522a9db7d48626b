package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// hostedServer is a fake of a provider, whose answers are a text, with a usage of 10 prompt and 5 answer tokens.
type hostedServer struct {
	*httptest.Server
	text string

	mu     sync.Mutex
	status int    // of the next answers; 0 is 200
	cut    bool   // streams break off after their first chunk
	limits int    // the next so many answers are 429
	after  string // their Retry-After
	paths  []string
	heads  []http.Header
	bodies []map[string]any
}

func startHosted(t *testing.T, text string) *hostedServer {
	t.Helper()
	h := &hostedServer{text: text}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

// gotOnly checks that the last request had no header that tells anything of ours, and only these members, and returns them.
func (h *hostedServer) gotOnly(t *testing.T, members ...string) (sent map[string]any) {
	t.Helper()
	head, sent := h.last(t)
	for name := range head {
		if !slices.Contains([]string{"Content-Type", "Content-Length", "Accept", "Accept-Encoding", "User-Agent", "Host", "Connection"}, name) {
			t.Errorf("the header %s: %q was sent", name, head.Get(name))
		}
	}
	for name := range sent {
		if !slices.Contains(members, name) {
			t.Errorf("the member %s: %v was sent", name, sent[name])
		}
	}
	return sent
}

// ServeHTTP implements [http.Handler].
func (h *hostedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var body map[string]any
	_ = json.Unmarshal(raw, &body)
	h.mu.Lock()
	h.paths, h.heads, h.bodies = append(h.paths, r.URL.Path), append(h.heads, r.Header.Clone()), append(h.bodies, body)
	status, cut := h.status, h.cut
	if h.limits > 0 {
		h.limits, status = h.limits-1, http.StatusTooManyRequests
		w.Header().Set("Retry-After", h.after)
	}
	h.mu.Unlock()
	if r.Method != http.MethodPost {
		if r.URL.Path != "/health" {
			http.NotFound(w, r)
		}
		return
	}
	if status != 0 {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":{"message":"no","type":"x"}}`)
		return
	}
	if body["stream"] != true {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"c1","object":"chat.completion","created":1,"model":"theirs","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`, h.text)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(s string) {
		_, _ = fmt.Fprintf(w, `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"theirs",%s}`+"\n\n", s)
		w.(http.Flusher).Flush()
	}
	chunk(fmt.Sprintf(`"choices":[{"index":0,"delta":{"role":"assistant","content":%q},"finish_reason":null}]`, h.text))
	if cut {
		panic(http.ErrAbortHandler)
	}
	chunk(`"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]`)
	chunk(`"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`)
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// set changes how the server answers.
func (h *hostedServer) set(status int, cut bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status, h.cut = status, cut
}

// limit has the next answers say that the limit is reached.
func (h *hostedServer) limit(answers int, retryAfter string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limits, h.after = answers, retryAfter
}

// asked returns the paths of all requests so far.
func (h *hostedServer) asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.paths)
}

// last returns the last request.
func (h *hostedServer) last(t testing.TB) (http.Header, map[string]any) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.bodies) == 0 {
		t.Fatal("nobody asked")
	}
	return h.heads[len(h.heads)-1], h.bodies[len(h.bodies)-1]
}

// deadURL is an address where nothing listens: a port that was free a moment ago may be another test's by now.
const deadURL = "http://127.0.0.1:1"

// fallbackFile is a configuration whose route llama-3 has a target that does not answer, and of these two hosted pools the fallbacks. A dollar is 1,000 tokens.
func fallbackFile(target, hosted, other, fallbacks string) string {
	return conf(`pools:
  own: {model: m, backends: [%q]}
  hosted: {model: theirs, engine: openai, backends: [%q], usd_per_million_input: 1000, usd_per_million_output: 1000}
  other: {model: others, engine: openai, backends: [%q], usd_per_million_input: 1000, usd_per_million_output: 1000}
routes: [{model: llama-3, target: own, fallbacks: [%s]}]
tenants: [{id: acme, allow_external: true}, {id: shy}]
`, target, hosted, other, fallbacks)
}

// TestAFallbackAnswersOnlyTenantsThatMayLeave has a target that is dead, and one that serves another model. The fallback may
// spend what three answers cost.
func TestAFallbackAnswersOnlyTenantsThatMayLeave(t *testing.T) {
	for name, target := range map[string]string{"dead": deadURL, "another model": engineOf(t, "other").URL()} {
		hosted := startHosted(t, "from outside")
		r := apptest.Serve(t, fallbackFile(target, hosted.URL, deadURL, "{pool: hosted, max_usd_per_hour: 0.065}"))
		ask := func(tenant string, stream bool) (int, string, string) {
			status, head, body := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", fmt.Sprintf(`"max_tokens":20,"stream":%t`, stream)), "X-Tenant-ID", tenant, "Cache-Control", "no-store")
			return status, head.Get("X-Tier"), body
		}
		for i, stream := range []bool{false, true, false} {
			if status, _, body := ask("shy", stream); status < 500 || len(hosted.asked()) != i {
				t.Fatalf("%s, stream %t: a tenant that may not leave: status %d, %v: %s", name, stream, status, hosted.asked(), body)
			}
			status, tier, body := ask("acme", stream)
			if status != http.StatusOK || tier != "fallback" || !strings.Contains(body, "outside") || strings.Contains(body, "theirs") || !strings.Contains(body, `"tier":"fallback"`) || len(hosted.asked()) != i+1 {
				t.Fatalf("%s, stream %t: status %d, tier %q, asked %v: %s", name, stream, status, tier, hosted.asked(), body)
			}
		}
		if status, _, body := ask("acme", false); status < 500 || len(hosted.asked()) != 3 {
			t.Errorf("%s: beyond its dollars: status %d, asked %v: %s", name, status, hosted.asked(), body)
		}
		views := r.Status(t).Fallbacks
		if len(views) != 1 || views[0].Route != "llama-3" || views[0].Pool != "hosted" || !slices.Equal(views[0].When, []string{"unavailable"}) || views[0].Spent.Limit != 0.065 || math.Abs(views[0].Spent.Used-0.045) > 1e-9 {
			t.Errorf("%s: the status has %+v", name, views)
		}
		_, tenants := apptest.Get(t, r.Admin+"/admin/tenants")
		for tenant, may := range map[string]bool{"acme": true, "shy": false} {
			if !regexp.MustCompile(fmt.Sprintf(`"tenant":\s*%q[^{}]*"allow_external":\s*%t`, tenant, may)).MatchString(tenants) {
				t.Errorf("whether %s may leave is told wrong: %s", tenant, tenants)
			}
		}
		page := r.Metrics(t)
		for _, line := range []string{
			`foregate_fallbacks_total{outcome="answered",pool="hosted",route="llama-3"} 3`, `foregate_fallbacks_total{outcome="spent",pool="hosted",route="llama-3"} 1`,
			`foregate_fallback_usd_total{pool="hosted",route="llama-3"} 0.045`, `foregate_fallback_unused_total{reason="tenant",route="llama-3"} 3`, `foregate_fallback_unused_total{reason="spent",route="llama-3"} 1`,
		} {
			if !strings.Contains(page, line) {
				t.Errorf("%s: the metrics have no %s:\n%s", name, line, apptest.Lines(page, "foregate_fallback"))
			}
		}
	}
}

func TestAnOutsiderGetsNothingOfOurs(t *testing.T) {
	hosted := startHosted(t, "from outside")
	r := apptest.Serve(t, fallbackFile(deadURL, hosted.URL, deadURL, "{pool: hosted, max_usd_per_hour: 20}"))
	status, _, body := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", `"cache_salt":"s"`, `"priority":3`, `"temperature":0.5`), "X-Tenant-ID", "acme",
		"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "X-Request-ID", "mine", "X-Priority", "low")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	sent := hosted.gotOnly(t, "model", "messages", "temperature", "max_tokens", "stream", "stream_options")
	if sent["model"] != "theirs" || sent["max_tokens"] != 4096.0 {
		t.Errorf("model %v, max_tokens %v", sent["model"], sent["max_tokens"])
	}
	if asked := hosted.asked(); len(asked) != 1 || asked[0] != chat {
		t.Errorf("it was asked for %v", asked)
	}
}

func TestARouteIsReadyByAFallbackThatSomebodyMayUse(t *testing.T) {
	hosted := startHosted(t, "from outside")
	const one = "{pool: hosted, max_usd_per_hour: 20}"
	for _, c := range []struct{ name, file, state string }{
		{"somebody may leave", fallbackFile(deadURL, hosted.URL, deadURL, one), "fallback"},
		{"nobody may leave", strings.Replace(fallbackFile(deadURL, hosted.URL, deadURL, one), "allow_external: true", "allow_external: false", 1), "down"},
		{"only when requests are shed", fallbackFile(deadURL, hosted.URL, deadURL, "{pool: hosted, when: [shed], max_usd_per_hour: 20}"), "down"},
	} {
		r := apptest.Serve(t, c.file)
		apptest.Eventually(t, c.name, func() bool {
			status, text := apptest.Get(t, r.Admin+"/readyz")
			return (status == http.StatusOK) == (c.state == "fallback") && strings.Contains(text, "route llama-3: "+c.state)
		})
	}
	if asked := hosted.asked(); len(asked) > 0 {
		t.Errorf("readiness asked the outsider for %v", asked)
	}
}

func TestTheNextFallbackIsAskedWhenOneFails(t *testing.T) {
	for _, status := range []int{429, 500, 400, 401} {
		first, second := startHosted(t, "from outside"), startHosted(t, "from outside")
		first.set(status, false)
		r := apptest.Serve(t, fallbackFile(deadURL, first.URL, second.URL, "{pool: hosted, max_usd_per_hour: 20}, {pool: other, max_usd_per_hour: 20}"))
		code, head, body := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", `"max_tokens":20`), "X-Tenant-ID", "acme")
		if code != http.StatusOK || head.Get("X-Tier") != "fallback" || len(first.asked()) != 1 || len(second.asked()) != 1 {
			t.Errorf("%d: status %d, first asked %v, second %v: %s", status, code, first.asked(), second.asked(), body)
		}
		page := r.Metrics(t)
		if !strings.Contains(page, `foregate_fallbacks_total{outcome="failed",pool="hosted",route="llama-3"} 1`) || !strings.Contains(page, `foregate_fallback_usd_total{pool="hosted",route="llama-3"} 0`+"\n") {
			t.Errorf("%d: %s", status, apptest.Lines(page, "foregate_fallback"))
		}
		second.set(500, false)
		code, _, body = apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", `"max_tokens":20`), "X-Tenant-ID", "acme")
		if _, kind, _ := errorOf(body); code < 500 || kind == "upstream_error" {
			t.Errorf("all fail: status %d: %s: want the error of the own pools", code, body)
		}
	}
}

func TestAFallbackThatBreaksOffIsNotJoinedWithAnother(t *testing.T) {
	first, second := startHosted(t, "from outside"), startHosted(t, "from outside")
	first.set(0, true)
	r := apptest.Serve(t, fallbackFile(deadURL, first.URL, second.URL, "{pool: hosted, max_usd_per_hour: 20}, {pool: other, max_usd_per_hour: 20}"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+chat, strings.NewReader(chatBody("llama-3", `"max_tokens":20,"stream":true`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "X-Tenant-Id": {"acme"}}
	resp, err := apptest.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body) // it breaks off
	code, body := resp.StatusCode, string(text)
	if code != http.StatusOK || !strings.Contains(body, "from ") || !strings.Contains(body, `"error"`) || strings.Contains(body, "[DONE]") || len(second.asked()) > 0 {
		t.Errorf("status %d, the second was asked %v: %s", code, second.asked(), body)
	}
	page := r.Metrics(t)
	if !strings.Contains(page, `foregate_fallbacks_total{outcome="broken",pool="hosted",route="llama-3"} 1`) {
		t.Error(apptest.Lines(page, "foregate_fallback"))
	}
	if !strings.Contains(page, `foregate_fallback_usd_total{pool="hosted",route="llama-3"} 0.02`) { // 1 or more of prompt, 20 of the answer
		t.Error(apptest.Lines(page, "foregate_fallback_usd"))
	}
}
