package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// smuggled is a request that must never be handled: it hides in the body of
// another.
func smuggled(id string) string {
	body := chatBody("llama-3")
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Request-ID: %s\r\nX-Smuggled: 1\r\nContent-Length: %d\r\n\r\n%s", chat, id, len(body), body)
}

// smuggling is what an attacker sends on one connection.
type smuggling struct {
	name  string
	head  string // header lines beside Host and Content-Type, each ended
	body  string // SMUGGLED stands for the hidden request
	never bool   // not even the outer request may be handled
}

const outerHead = "POST " + "/v1/chat/completions" + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

// chunked is a chat request in one chunk, followed by rest.
func chunked(rest string) string {
	body := chatBody("llama-3")
	return fmt.Sprintf("%x\r\n%s\r\n%s", len(body), body, rest)
}

var probes = []smuggling{
	{name: "CL and TE", head: "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", body: "0\r\n\r\nSMUGGLED"},
	{name: "TE and CL", head: "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", body: "0\r\n\r\nSMUGGLED"},
	{name: "TE and a request behind", head: "Transfer-Encoding: chunked\r\n", body: chunked("0\r\n\r\nSMUGGLED")},
	{name: "TE twice", head: "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", body: "0\r\n\r\nSMUGGLED", never: true},
	{name: "TE xchunked", head: "Transfer-Encoding: xchunked\r\nContent-Length: 3\r\n", body: "{}\nSMUGGLED", never: true},
	{name: "TE with a space before the colon", head: "Transfer-Encoding : chunked\r\n", body: "0\r\n\r\nSMUGGLED", never: true},
	{name: "TE in HTTP/1.0", head: "HTTP10Transfer-Encoding: chunked\r\n", body: "0\r\n\r\nSMUGGLED"},
	{name: "CL twice", head: "Content-Length: 3\r\nContent-Length: 4\r\n", body: "{}\n\nSMUGGLED", never: true},
	{name: "CL with a plus", head: "Content-Length: +3\r\n", body: "{}\nSMUGGLED", never: true},
	{name: "CL beyond 64 bits", head: "Content-Length: 18446744073709551619\r\n", body: "{}\nSMUGGLED", never: true},
	{name: "a chunk size that is none", head: "Transfer-Encoding: chunked\r\n", body: "zz\r\n{}\r\n0\r\n\r\nSMUGGLED", never: true},
	{name: "a chunk size beyond 64 bits", head: "Transfer-Encoding: chunked\r\n", body: "fffffffffffffffff\r\n{}\r\n0\r\n\r\nSMUGGLED", never: true},
	{name: "a chunk that ends in LF", head: "Transfer-Encoding: chunked\r\n", body: "2\n{}\n0\n\nSMUGGLED", never: true},
	{name: "a bare LF before TE", head: "X-A: a\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n", body: "0\r\n\r\nSMUGGLED"},
	{name: "two hosts", head: "Host: other\r\nContent-Length: 0\r\n", body: "SMUGGLED", never: true},
	{name: "a body cut short by the next request", head: "Content-Length: 9999\r\n", body: "SMUGGLED", never: true},
}

// payload is what goes on the wire.
func (s *smuggling) payload(id string) string {
	head, rest := outerHead, s.head
	if after, ok := strings.CutPrefix(rest, "HTTP10"); ok {
		head, rest = strings.Replace(outerHead, "HTTP/1.1", "HTTP/1.0", 1), after
	}
	if strings.Contains(s.body, "\nSMUGGLED") && strings.Contains(s.head, "Content-Length: 3\r\n") {
		rest = "X-Outer: 1\r\n" + rest
	}
	return head + "X-Request-ID: outer-" + id + "\r\n" + rest + "\r\n" + strings.Replace(s.body, "SMUGGLED", smuggled("hidden-"+id), 1)
}

// check holds that at most the outer request was handled.
func (s *smuggling) check(t *testing.T, got rawResult) {
	t.Helper()
	handled := slices.DeleteFunc(slices.Clone(got.replies), func(r rawReply) bool {
		return r.header.Get("X-Request-Id") == "" // the server made nothing of it
	})
	if len(handled) > 1 || (len(got.replies) == 0 && !got.closed) {
		t.Errorf("%d responses came, %d of requests: %+v", len(got.replies), len(handled), got.replies)
	}
	for _, r := range got.replies {
		if s.never && r.status < 400 {
			t.Errorf("it was handled: %d %s", r.status, r.body)
		}
	}
	if !got.closed && strings.Contains(s.body, "SMUGGLED") {
		t.Error("the connection stays open, with the rest of the probe in it")
	}
}

func TestASmuggledRequestIsNeverHandled(t *testing.T) {
	g := newGuarded(t, "timeout.body", "1s") // some probes promise a body that never comes
	got := make([]rawResult, len(probes))
	var all sync.WaitGroup
	for i, p := range probes { // at once: most of each is a silence
		all.Go(func() { got[i] = raw(t, g.Address, []byte(p.payload(fmt.Sprint(i)))) })
	}
	all.Wait()
	for i, p := range probes {
		t.Run(p.name, func(t *testing.T) { p.check(t, got[i]) })
	}
	log := g.Log.String()
	for i, p := range probes {
		if strings.Contains(log, fmt.Sprintf("hidden-%d\"", i)) {
			t.Errorf("%s: the hidden request was handled", p.name)
		}
	}
	for _, r := range slices.Concat(g.draft.all(), g.target.all()) {
		own, _, _ := strings.Cut(r.header.Get("X-Request-Id"), "-")
		if own == "" {
			t.Errorf("a request without an id reached a backend: %s", r.body)
			continue
		}
		line := ""
		apptest.Eventually(t, "the request that reached a backend is in the log", func() bool {
			line = apptest.Lines(g.Log.String(), `"request_id":"`+own+`"`)
			return line != ""
		})
		if !strings.Contains(line, `"client_request_id":"outer-`) {
			t.Errorf("%s reached a backend: %s", line, r.body)
		}
		if r.header.Get("X-Smuggled") != "" || r.header.Get("Transfer-Encoding") != "" {
			t.Errorf("headers of a probe reached a backend: %v", r.header)
		}
	}
}

// badHeads are requests whose headers or request line must be refused.
var badHeads = []struct {
	name   string
	line   string // request line; a chat request by default
	extra  []string
	status []int
	code   string // of our own refusals
}{
	{name: "two tenants", extra: []string{"X-Tenant-ID: a", "X-Tenant-ID: b"}, status: []int{400}, code: "bad_header"},
	{name: "a folded tenant", extra: []string{"X-Tenant-ID: a\r\n evil"}, status: []int{400}, code: "bad_header"},
	{name: "a tenant beyond ASCII", extra: []string{"X-Tenant-ID: t\xe9nant"}, status: []int{400}, code: "bad_header"},
	{name: "an unknown priority", extra: []string{"X-Priority: -9e18"}, status: []int{400}, code: "bad_header"},
	{name: "a bad hash", extra: []string{"X-RAG-Hash: a/b"}, status: []int{400}, code: "bad_header"},
	{name: "two tiers", extra: []string{"X-Tier: draft", "X-Tier: target"}, status: []int{400}, code: "bad_header"},
	{name: "two modes", extra: []string{"X-Acceptance-Mode: exact", "X-Acceptance-Mode: target"}, status: []int{400}, code: "bad_header"},
	{name: "a request id with a slash", extra: []string{"X-Request-ID: ../../etc"}, status: []int{400}, code: "bad_header"},
	{name: "two content types", extra: []string{"Content-Type: application/json", "Content-Type: text/plain"}, status: []int{415}, code: "unsupported_media_type"},
	{name: "a multipart body", extra: []string{"Content-Type: multipart/form-data; boundary=x"}, status: []int{415}, code: "unsupported_media_type"},
	{name: "gzip", extra: []string{"Content-Encoding: gzip"}, status: []int{415}, code: "unsupported_encoding"},
	{name: "200 short headers", extra: manyHeaders(200), status: []int{431}, code: "too_many_headers"},
	{name: "a header of 1.1 MB", extra: []string{"X-A: " + strings.Repeat("a", 1_100_000)}, status: []int{431}},
	{name: "OPTIONS *", line: "OPTIONS * HTTP/1.1", status: []int{400, 404, 405}, code: "bad_request_line"},
	{name: "TRACE", line: "TRACE /v1/models HTTP/1.1", status: []int{405}, code: "method_not_allowed"},
	{name: "CONNECT", line: "CONNECT 169.254.169.254:80 HTTP/1.1", status: []int{400, 404, 405}, code: "bad_request_line"},
	{name: "an absolute URI", line: "POST http://169.254.169.254/v1/chat/completions HTTP/1.1", status: []int{400}, code: "bad_request_line"},
	{name: "dots encoded", line: "POST /v1/models/%2e%2e/chat/completions HTTP/1.1", status: []int{404}, code: "unknown_url"},
	{name: "an encoded slash", line: "POST /v1%2fchat%2fcompletions HTTP/1.1", status: []int{404}, code: "unknown_url"},
	{name: "an engine's path", line: "POST /update_weights HTTP/1.1", status: []int{404}, code: "unknown_url"},
	{name: "the metrics", line: "GET /metrics HTTP/1.1", status: []int{404}, code: "unknown_url"},
	{name: "HTTP/3.0", line: "POST /v1/chat/completions HTTP/3.0", status: []int{400, 505}},
}

func manyHeaders(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("H%d: 1", i))
	}
	return out
}

func TestABadHeadIsRefusedAndReachesNoBackend(t *testing.T) {
	g := newGuarded(t)
	t.Run("heads", func(t *testing.T) {
		for _, bad := range badHeads {
			t.Run(bad.name, func(t *testing.T) {
				t.Parallel()
				payload := string(request(chat, []byte(chatBody("llama-3")), append(bad.extra, "Connection: close")...))
				if bad.line != "" {
					payload = strings.Replace(payload, "POST "+chat+" HTTP/1.1", bad.line, 1)
				}
				got := raw(t, g.Address, []byte(payload))
				if len(got.replies) == 0 && bad.code == "" && got.closed {
					return // hung up on, which is an answer too
				}
				if len(got.replies) != 1 || !slices.Contains(bad.status, got.replies[0].status) {
					t.Fatalf("want one response with a status of %v: %+v", bad.status, got.replies)
				}
				if bad.code != "" {
					checkError(t, got.replies[0].header, got.replies[0].body, &refusal{kind: "invalid_request_error", code: bad.code})
				}
			})
		}
	})
	g.untouched(t)
}

func TestNamesWithUnderscoresAreNotTheHeadersTheyLookLike(t *testing.T) {
	g := newGuarded(t)
	got := raw(t, g.Address, request(chat, []byte(chatBody("llama-3")), "X_Tenant_ID: evil", "X_Tier: draft", "X_Request_ID: evil", "Connection: close"))
	if len(got.replies) != 1 || got.replies[0].status != http.StatusOK || got.replies[0].header.Get("X-Tier") != "target" {
		t.Fatalf("got %+v", got.replies)
	}
	if strings.Contains(g.Log.String(), "evil") {
		t.Error("a value under a name with underscores was believed")
	}
	for _, r := range slices.Concat(g.draft.all(), g.target.all()) {
		for name := range r.header {
			if strings.Contains(name, "_") {
				t.Errorf("%s reached a backend", name)
			}
		}
	}
}
