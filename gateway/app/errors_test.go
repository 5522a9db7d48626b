package app_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

const (
	keyHigh    = "key-of-acme"
	keyLimited = "key-of-globex"
)

// refusals is a gateway whose routes fail in every way there is.
func refusals(t *testing.T) (*apptest.Replica, *recorder) {
	t.Helper()
	good := newRecorder(t)
	sim := func(f vllmsim.Fault) string {
		s := vllmsim.Start(t, vllmsim.Options{Model: "m", TimeScale: simScale})
		s.SetFault(f)
		return s.URL()
	}
	settings := withSettings(t, "timeout.total@mute", "300ms", "timeout.target_first_token@slow", "200ms", "retry.max_retries@slow", "0", "shed.low@good", "0", "shed.hysteresis@good", "0")
	pools := map[string][]string{
		"good":    {good.url},
		"broken":  {sim(vllmsim.Fault{Status: 500}), sim(vllmsim.Fault{Status: 502})},
		"busy":    {sim(vllmsim.Fault{Status: 429, RetryAfter: "3"}), sim(vllmsim.Fault{Status: 503, RetryAfter: "17"})},
		"mute":    {sim(vllmsim.Fault{Hang: "headers"})},
		"slow":    {sim(vllmsim.Fault{Hang: "headers"})},
		"refused": {deadURL},
	}
	var b strings.Builder
	b.WriteString(conf("%spools:\n", settings))
	routes := ""
	for name, urls := range pools {
		fmt.Fprintf(&b, "  %s: {model: m, backends: [%s]}\n", name, `"`+strings.Join(urls, `", "`)+`"`)
		routes += fmt.Sprintf("  - {model: %s, target: %s}\n", name, name)
	}
	fmt.Fprintf(&b, "routes:\n%stenants:\n", routes)
	for name := range pools { // each has turns of its own to come again
		fmt.Fprintf(&b, "  - {id: %s, keys_sha256: [\"%x\"]}\n", name, sha256.Sum256([]byte("key-of-"+name)))
	}
	fmt.Fprintf(&b, "  - {id: acme, keys_sha256: [\"%x\"], max_priority: high}\n", sha256.Sum256([]byte(keyHigh)))
	fmt.Fprintf(&b, "  - {id: globex, keys_sha256: [\"%x\"], rpm: 1}\n", sha256.Sum256([]byte(keyLimited)))
	return apptest.Serve(t, b.String()), good
}

// refusal is one row of the error table.
type refusal struct {
	name           string
	method, path   string // POST /v1/chat/completions by default
	body           string
	headers        []string // names and values
	status         int
	kind, code     string
	message        string // a part of it
	retry          string // Retry-After, as a regexp
	param          string
	extra, extraIs string // one more header and its value as a regexp
}

var chat = "/v1/chat/completions"

var errorTable = []refusal{
	{name: "malformed JSON", body: `{"model":"good",,}`, status: 400, kind: "invalid_request_error", code: "invalid_json", message: "at byte 16"},
	{name: "a missing field", body: `{"model":"good"}`, status: 400, kind: "invalid_request_error", code: "missing_required_parameter", message: "messages", param: "messages"},
	{name: "a wrong type", body: chatBody("good", `"stream":"yes"`), status: 400, kind: "invalid_request_error", code: "invalid_type", message: "must be a boolean, but is a string", param: "stream"},
	{name: "a bad tier", headers: []string{"X-Tier", "best"}, status: 400, kind: "invalid_request_error", code: "bad_header", message: "X-Tier"},
	{name: "no key", headers: []string{"Authorization", ""}, status: 401, kind: "authentication_error", code: "invalid_api_key"},
	{name: "another's tenant", headers: []string{"X-Tenant-ID", "globex"}, status: 403, kind: "permission_error", code: "forbidden", message: "X-Tenant-ID"},
	{name: "an unknown model", body: chatBody("gpt-9"), status: 404, kind: "invalid_request_error", code: "model_not_found", message: "gpt-9", param: "model"},
	{name: "an unknown path", path: "/v1/files", status: 404, kind: "invalid_request_error", code: "unknown_url"},
	{name: "a path without /v1", path: "/chat/completions", status: 404, kind: "invalid_request_error", code: "unknown_url", message: "Did you mean /v1/chat/completions?"},
	{name: "an engine's path", path: "/pause", status: 404, kind: "invalid_request_error", code: "unknown_url"},
	{name: "a wrong method", method: "GET", status: 405, kind: "invalid_request_error", code: "method_not_allowed", extra: "Allow", extraIs: "^POST$"},
	{name: "too large a body", body: `{"model":"` + strings.Repeat("x", 4<<20) + `"}`, status: 413, kind: "invalid_request_error", code: "body_too_large", message: "4194304 bytes"},
	{name: "another content type", headers: []string{"Content-Type", "text/plain"}, status: 415, kind: "invalid_request_error", code: "unsupported_media_type"},
	{name: "all tries failed", headers: []string{"Authorization", "Bearer key-of-broken"}, body: chatBody("broken"), status: 502, kind: "server_error", code: "upstream_error"},
	{name: "shed", headers: []string{"X-Priority", "low"}, status: 503, kind: "overloaded_error", code: "shed", retry: `^([1-9]|[12]\d|30)$`,
		extra: "X-Shed-Reason", extraIs: `^kv_pressure;pool=good;usage=[\d.e-]+;threshold=0$`},
	{name: "no backend", headers: []string{"Authorization", "Bearer key-of-refused"}, body: chatBody("refused"), status: 503, kind: "overloaded_error", code: "no_backend", retry: `^[1-3]$`},
	{name: "all busy", headers: []string{"Authorization", "Bearer key-of-busy"}, body: chatBody("busy"), status: 503, kind: "overloaded_error", code: "upstream_busy", retry: `^(1[7-9]|2[0-7])$`},
	{name: "the deadline", body: chatBody("mute"), status: 504, kind: "timeout_error", code: "deadline", extra: "X-Should-Retry", extraIs: "^false$"},
	{name: "no first byte", headers: []string{"Authorization", "Bearer key-of-slow"}, body: chatBody("slow", `"stream":true`), status: 504, kind: "timeout_error", code: "upstream_timeout"},
}

func TestEveryRowOfTheErrorTableIsAnsweredInOpenAIsShape(t *testing.T) {
	p, good := refusals(t)
	for _, row := range errorTable {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.check(t, p)
		})
	}
	t.Run("too many requests", func(t *testing.T) {
		t.Parallel()
		row := refusal{headers: []string{"Authorization", "Bearer " + keyLimited, "Cache-Control", "no-store"}, status: 429,
			kind: "requests", code: "rate_limit_exceeded", message: "1 requests per minute", retry: `^(5\d|6\d)$`,
			extra: "X-Ratelimit-Remaining-Requests", extraIs: "^0$"}
		if status, _, body := row.send(t, p); status != http.StatusOK {
			t.Fatalf("the first request got %d: %s", status, body)
		}
		row.check(t, p)
	})
	t.Run("too many header lines", func(t *testing.T) {
		t.Parallel()
		row := refusal{status: 431, kind: "invalid_request_error", code: "too_many_headers", message: "128"}
		for i := range 130 {
			row.headers = append(row.headers, fmt.Sprintf("X-H-%d", i), "1")
		}
		row.check(t, p)
	})
	t.Cleanup(func() {
		if got := len(good.all()); got > 1 { // the one of the limited tenant
			t.Errorf("%d refused requests reached a backend", got-1)
		}
	})
}

func (r *refusal) send(t *testing.T, p *apptest.Replica) (int, http.Header, string) {
	t.Helper()
	method, path, body := cmp.Or(r.method, http.MethodPost), cmp.Or(r.path, chat), cmp.Or(r.body, chatBody("good"))
	return apptest.Send(t, method, p.URL+path, body, append([]string{"Authorization", "Bearer " + keyHigh}, r.headers...)...)
}

func (r *refusal) check(t *testing.T, p *apptest.Replica) {
	t.Helper()
	status, head, body := r.send(t, p)
	if status != r.status {
		t.Fatalf("status %d, want %d: %s", status, r.status, body)
	}
	checkError(t, head, body, r)
}

// checkError holds what is true of every error, and what a row says of its own.
func checkError(t *testing.T, head http.Header, body string, row *refusal) {
	t.Helper()
	var got map[string]map[string]*string
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("the body is not of OpenAI's shape: %v: %s", err, body)
	}
	e := got["error"]
	for _, name := range []string{"message", "type", "param", "code"} {
		if _, ok := e[name]; !ok {
			t.Errorf("%q is missing: %s", name, body)
		}
	}
	text := func(name string) string {
		if e[name] == nil {
			return ""
		}
		return *e[name]
	}
	if text("type") != row.kind || text("code") != row.code || text("message") == "" || !strings.Contains(text("message"), row.message) {
		t.Errorf("got %s, want type %s, code %s and a message with %q", body, row.kind, row.code, row.message)
	}
	if row.param != "" && text("param") != row.param {
		t.Errorf("param is %q, want %q", text("param"), row.param)
	}
	if head.Get("X-Request-Id") == "" || head.Get("Content-Type") != "application/json" {
		t.Errorf("X-Request-ID %q, Content-Type %q", head.Get("X-Request-Id"), head.Get("Content-Type"))
	}
	if !matches(row.retry, head.Get("Retry-After")) {
		t.Errorf("Retry-After is %q, want %s", head.Get("Retry-After"), row.retry)
	}
	if row.extra != "" && !matches(row.extraIs, head.Get(row.extra)) {
		t.Errorf("%s is %q, want %s", row.extra, head.Get(row.extra), row.extraIs)
	}
}

// matches takes "" for absent.
func matches(pattern, value string) bool {
	if pattern == "" {
		return value == ""
	}
	return regexp.MustCompile(pattern).MatchString(value)
}

// nonsense is what a backend may answer instead of an answer.
var nonsense = map[string]func(w http.ResponseWriter){
	"html":        page(200, "text/html", "<html>502 Bad Gateway</html>"),
	"empty":       page(200, "application/json", ""),
	"truncated":   page(200, "application/json", `{"id":"x","model":"m","choices":[{"index":0,"mess`),
	"error":       page(200, "application/json", `{"error":{"message":"engine died at 0x7f0012345678","type":"InternalServerError","code":500}}`),
	"no-choices":  page(200, "application/json", `{"id":"x","model":"m","choices":[]}`),
	"huge":        page(200, "application/json", `{"model":"m","x":"`+strings.Repeat("x", 17<<20)+`"}`),
	"aborted":     page(200, "application/json", `{"model":"m","choices":[{"index":0,"message":{"content":"a"},"finish_reason":"abort"}]}`),
	"created":     page(201, "application/json", `{"model":"m","choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}`),
	"unknown-404": page(404, "application/json", `{"error":{"message":"The model does not exist.","type":"NotFoundError","code":404}}`),
	"no-auth":     page(401, "application/json", `{"error":"Unauthorized"}`),
}

func page(status int, kind, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the gateway may have seen enough
	}
}

func TestNonsenseFromABackendIsA502AndIsNotPassedOn(t *testing.T) {
	var followed atomic.Int64
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(canary.Close)
	answers := map[string]func(http.ResponseWriter){
		"redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", canary.URL+"/v1/chat/completions")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
	}
	for name, answer := range nonsense {
		answers[name] = answer
	}
	var pools, routes strings.Builder
	for name, answer := range answers {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				http.NotFound(w, r)
				return
			}
			answer(w)
		}))
		t.Cleanup(srv.Close)
		fmt.Fprintf(&pools, "  %s: {model: m, backends: [%q]}\n", name, srv.URL)
		fmt.Fprintf(&routes, "  - {model: %s, target: %s}\n", name, name)
	}
	p := apptest.Serve(t, conf("pools:\n%sroutes:\n%s", pools.String(), routes.String()))
	for name := range answers {
		for kind, stream := range map[string]string{"whole": `"stream":false`, "stream": `"stream":true`} {
			tenant := strings.ReplaceAll(name, " ", "-") + "-" + kind // each has turns of its own to come again
			status, head, body := apptest.Send(t, "POST", p.URL+chat, chatBody(name, stream), "X-Tenant-ID", tenant)
			if status != http.StatusBadGateway {
				t.Errorf("%s, %s: status %d: %.300s", name, stream, status, body)
				continue
			}
			code := ""
			for _, known := range []string{"bad_upstream_response", "answer_too_large", "upstream_error", "upstream_aborted", "upstream_rejected", "upstream_wrong_model", "upstream_auth", "upstream_cut"} {
				if strings.Contains(body, known) {
					code = known
				}
			}
			checkError(t, head, body, &refusal{kind: "server_error", code: code})
			for _, secret := range []string{"0x7f", "html", "Unauthorized", "died"} {
				if strings.Contains(body, secret) {
					t.Errorf("%s: the client sees %s", name, body)
				}
			}
		}
	}
	if followed.Load() > 0 {
		t.Error("a redirect was followed")
	}
	if tries := apptest.Lines(p.Metrics(t), `kind="answer_too_large"`); !strings.HasSuffix(tries, " 1\n") || strings.Count(tries, "\n") != 1 {
		t.Errorf("an answer above limits.response_bytes was generated more than once: %s", tries)
	}
}
