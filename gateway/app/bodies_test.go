package app_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/tiers/dialect"
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

// received is one generation request as a backend got it.
type received struct {
	path, body string
	header     http.Header
}

// recorder is a backend that notes what reaches it and answers with a fixed text
// of ten sure tokens.
type recorder struct {
	url string

	mu   sync.Mutex
	seen []received
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	b := &recorder{}
	srv := httptest.NewServer(b)
	t.Cleanup(srv.Close)
	b.url = srv.URL
	return b
}

// ServeHTTP answers the health and metrics probes quietly and records the rest.
func (rc *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/health":
		return
	}
	if slices.Contains(dialect.Questions, r.URL.Path) && r.Method == http.MethodGet {
		http.NotFound(w, r)
		return
	}
	if r.UserAgent() == "foregate-probe" {
		http.Error(w, "what this can do is of no account", http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway left
	}
	rc.mu.Lock()
	rc.seen = append(rc.seen, received{r.URL.Path, string(body), r.Header.Clone()})
	rc.mu.Unlock()
	if !strings.Contains(string(body), `"stream":true`) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ten sure words"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":10,"total_tokens":13}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range 10 {
		finish := "null"
		if i == 9 {
			finish = `"stop"`
		}
		_, _ = fmt.Fprintf(w, `data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"content":" w%d"},"text":"","logprobs":{"content":[{"token":" w%d","logprob":-0.01,"top_logprobs":[{"token":" w%d","logprob":-0.01}]}]},"finish_reason":%s,"token_ids":[%d]}]}`+"\n\n", i, i, i, finish, i+20)
	}
	_, _ = io.WriteString(w, `data: {"id":"x","model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":10,"total_tokens":13}}`+"\n\ndata: [DONE]\n\n")
}

// all is what was received so far.
func (rc *recorder) all() []received {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return append([]received(nil), rc.seen...)
}

func (rc *recorder) forget() {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.seen = nil
}

// chatBody is a small chat request with further members, as raw JSON.
func chatBody(model string, members ...string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]` + strings.Join(append([]string{""}, members...), ",") + `}`
}

// silence is how long a raw connection may say nothing before the test takes it
// for idle: all that a gateway on the loopback would say has come by then.
const silence = 700 * time.Millisecond

// reply is one HTTP response read from a raw connection.
type rawReply struct {
	status int
	header http.Header
	body   string
}

// rawResult is all that a raw connection said.
type rawResult struct {
	replies []rawReply
	closed  bool // by the gateway
}

// raw sends bytes as they are and reads until the gateway closes or is silent.
func raw(t *testing.T, addr string, payload []byte) rawResult {
	t.Helper()
	var got rawResult
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return got
	}
	defer func() { _ = conn.Close() }()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
		_, _ = conn.Write(payload) // a gateway that has seen enough may close before the end
	}()
	in := bufio.NewReader(conn)
	wait := 10 * time.Second // for the first response
	for {
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		wait = silence
		if _, err := in.Peek(1); err != nil {
			got.closed = !isTimeout(err)
			break
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Errorf("what came is no HTTP response: %v", err)
			break
		}
		body, _ := io.ReadAll(resp.Body) // what there is
		got.replies = append(got.replies, rawReply{resp.StatusCode, resp.Header, string(body)})
	}
	_ = conn.Close()
	<-sent
	return got
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// request builds a POST of JSON with its true length; extra are whole header
// lines.
func request(path string, body []byte, extra ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: localhost\r\n", path)
	if !strings.Contains(strings.ToLower(strings.Join(extra, "\n")), "content-type:") {
		b.WriteString("Content-Type: application/json\r\n")
	}
	b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n")
	for _, line := range extra {
		b.WriteString(line + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// guarded is a gateway over two recording backends, to see what gets through.
type guarded struct {
	*apptest.Replica
	draft, target *recorder
}

// newGuarded starts one with the given live settings, names and values in turn.
func newGuarded(t *testing.T, settings ...string) *guarded {
	t.Helper()
	g := &guarded{draft: newRecorder(t), target: newRecorder(t)}
	g.Replica = apptest.Serve(t, conf(`%spools:
  small: {model: small, backends: [%q]}
  large: {model: large, backends: [%q]}
routes: [{model: llama-3, draft: small, target: large, same_tokenizer: true}]
passthrough: [/v1/embeddings, /v1/responses, /v1/messages, /tokenize, /detokenize, /v1/rerank, /v1/score]
`, withSettings(t, append(settings, "cache.mode", "off")...), g.draft.url, g.target.url))
	g.Ready(t)
	return g
}

// untouched checks that nothing reached a backend.
func (g *guarded) untouched(t *testing.T) {
	t.Helper()
	for _, r := range append(g.draft.all(), g.target.all()...) {
		t.Errorf("this reached a backend: %s %.200q %v", r.path, r.body, r.header)
	}
	g.draft.forget()
	g.target.forget()
}
