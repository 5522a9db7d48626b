package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// hostedServer is a fake of a provider. It answers "from outside", with a usage of 10 prompt and 5 answer tokens.
type hostedServer struct {
	*httptest.Server
	mu     sync.Mutex
	status int    // of the next answers; 0 is 200
	cut    bool   // streams break off after their first chunk
	hangUp bool   // the next connection is closed without an answer
	mute   bool   // answers come without usage
	limits int    // the next so many answers are 429
	after  string // their Retry-After
	paths  []string
	heads  []http.Header
	bodies []map[string]any
}

func startHosted(t *testing.T) *hostedServer {
	t.Helper()
	h := &hostedServer{}
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
	status, cut, hangUp, mute := h.status, h.cut, h.hangUp, h.mute
	h.hangUp = false
	if h.limits > 0 {
		h.limits, status = h.limits-1, http.StatusTooManyRequests
		w.Header().Set("Retry-After", h.after)
	}
	h.mu.Unlock()
	if hangUp {
		panic(http.ErrAbortHandler)
	}
	if status != 0 {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":{"message":"no","type":"x"}}`)
		return
	}
	if body["stream"] != true {
		w.Header().Set("Content-Type", "application/json")
		usage := `,"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`
		if mute {
			usage = ""
		}
		_, _ = io.WriteString(w, `{"id":"c1","object":"chat.completion","created":1,"model":"theirs","choices":[{"index":0,"message":{"role":"assistant","content":"from outside"},"finish_reason":"stop"}]`+usage+`}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(s string) {
		_, _ = fmt.Fprintf(w, `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"theirs",%s}`+"\n\n", s)
		w.(http.Flusher).Flush()
	}
	chunk(`"choices":[{"index":0,"delta":{"role":"assistant","content":"from "},"finish_reason":null}]`)
	if cut {
		panic(http.ErrAbortHandler)
	}
	chunk(`"choices":[{"index":0,"delta":{"content":"outside"},"finish_reason":null}]`)
	chunk(`"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]`)
	if !mute {
		chunk(`"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`)
	}
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

// fallbackFile is a configuration whose route llama-3 has a dead target and these fallbacks. A dollar is 1,000 tokens.
func fallbackFile(target, hosted, fallbacks, more string) string {
	return fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
pools:
  own: {model: m, backends: [%q]}
  hosted: {model: theirs, engine: openai, backends: [%q], usd_per_million_input: 1000, usd_per_million_output: 1000}
routes: [{model: llama-3, target: own, fallbacks: [%s]}]
tenants: [{id: acme, allow_external: true}, {id: shy}]
drain: {delay: 0s, grace: 5s}
%s`, target, hosted, fallbacks, more)
}

func TestAFallbackAnswersOnlyTenantsThatMayLeave(t *testing.T) {
	hosted := startHosted(t)
	r := apptest.Serve(t, fallbackFile(deadURL, hosted.URL, "{pool: hosted, max_usd_per_hour: 20}", ""))
	for _, stream := range []bool{false, true} {
		before := len(hosted.asked())
		member := fmt.Sprintf(`"max_tokens":20,"stream":%t`, stream)
		status, _, body := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", member), "X-Tenant-ID", "shy")
		if status < 500 || len(hosted.asked()) != before {
			t.Fatalf("stream %t: a tenant that may not leave: status %d, %v: %s", stream, status, hosted.asked(), body)
		}
		status, head, body := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", member), "X-Tenant-ID", "acme")
		if status != http.StatusOK || head.Get("X-Tier") != "fallback" || !strings.Contains(body, "outside") || strings.Contains(body, "theirs") {
			t.Fatalf("stream %t: status %d, tier %q: %s", stream, status, head.Get("X-Tier"), body)
		}
		if !strings.Contains(body, `"tier":"fallback"`) {
			t.Errorf("stream %t: the answer does not tell its tier: %s", stream, body)
		}
		if asked := hosted.asked(); len(asked) != before+1 {
			t.Errorf("stream %t: asked %v", stream, asked[before:])
		}
	}
	_, views := apptest.Get(t, r.Admin+"/admin/tenants")
	for tenant, may := range map[string]bool{"acme": true, "shy": false} {
		if !regexp.MustCompile(fmt.Sprintf(`"tenant":\s*%q[^{}]*"allow_external":\s*%t`, tenant, may)).MatchString(views) {
			t.Errorf("whether %s may leave is told wrong: %s", tenant, views)
		}
	}
	page := r.Metrics(t)
	for _, line := range []string{
		`foregate_fallbacks_total{outcome="answered",pool="hosted",route="llama-3"} 2`,
		`foregate_fallback_usd_total{pool="hosted",route="llama-3"} 0.03`,
		`foregate_fallback_unused_total{reason="tenant",route="llama-3"} 2`,
	} {
		if !strings.Contains(page, line) {
			t.Errorf("the metrics have no %s", line)
		}
	}
}

func TestAnOutsiderGetsNothingOfOurs(t *testing.T) {
	hosted := startHosted(t)
	r := apptest.Serve(t, fallbackFile(deadURL, hosted.URL, "{pool: hosted, max_usd_per_hour: 20}", ""))
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
	hosted := startHosted(t)
	const one = "{pool: hosted, max_usd_per_hour: 20}"
	for _, c := range []struct{ name, file, state string }{
		{"somebody may leave", fallbackFile(deadURL, hosted.URL, one, ""), "fallback"},
		{"nobody may leave", strings.Replace(fallbackFile(deadURL, hosted.URL, one, ""), "allow_external: true", "allow_external: false", 1), "down"},
		{"only when requests are shed", fallbackFile(deadURL, hosted.URL, "{pool: hosted, when: [shed], max_usd_per_hour: 20}", ""), "down"},
	} {
		r := apptest.Serve(t, c.file)
		apptest.Eventually(t, c.name, func() bool {
			status, text := apptest.Get(t, r.URL+"/readyz")
			return (status == http.StatusOK) == (c.state == "fallback") && strings.Contains(text, "route llama-3: "+c.state)
		})
	}
	if asked := hosted.asked(); len(asked) > 0 {
		t.Errorf("readiness asked the outsider for %v", asked)
	}
}

func TestTheNextFallbackIsAskedWhenOneFails(t *testing.T) {
	for _, status := range []int{429, 500, 400, 401} {
		first, second := startHosted(t), startHosted(t)
		first.set(status, false)
		file := strings.Replace(fallbackFile(deadURL, first.URL, "{pool: hosted, max_usd_per_hour: 20}, {pool: other, max_usd_per_hour: 20}", ""),
			"routes:", fmt.Sprintf("  other: {model: others, engine: openai, backends: [%q], usd_per_million_input: 1000, usd_per_million_output: 1000}\nroutes:", second.URL), 1)
		r := apptest.Serve(t, file)
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
	first, second := startHosted(t), startHosted(t)
	first.set(0, true)
	file := strings.Replace(fallbackFile(deadURL, first.URL, "{pool: hosted, max_usd_per_hour: 20}, {pool: other, max_usd_per_hour: 20}", ""),
		"routes:", fmt.Sprintf("  other: {model: others, engine: openai, backends: [%q], usd_per_million_input: 1000, usd_per_million_output: 1000}\nroutes:", second.URL), 1)
	r := apptest.Serve(t, file)
	code, body := readBroken(t, r, `"max_tokens":20,"stream":true`)
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

// readBroken sends a chat of acme, and reads its answer as far as it comes.
func readBroken(t *testing.T, r *apptest.Replica, members string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+chat, strings.NewReader(chatBody("llama-3", members)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Tenant-ID", "acme")
	resp, err := apptest.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // it breaks off
	return resp.StatusCode, string(body)
}
