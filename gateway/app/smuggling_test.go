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
	{name: "CL of the whole and TE", head: "Content-Length: 9999\r\nTransfer-Encoding: chunked\r\n", body: chunked("0\r\n\r\nSMUGGLED")},
	{name: "TE and a request behind", head: "Transfer-Encoding: chunked\r\n", body: chunked("0\r\n\r\nSMUGGLED")},
	{name: "TE in capitals", head: "Content-Length: 4\r\nTRANSFER-ENCODING: CHUNKED\r\n", body: "0\r\n\r\nSMUGGLED"},
	{name: "TE twice", head: "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", body: "0\r\n\r\nSMUGGLED", never: true},
	{name: "TE chunked twice", head: "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", body: "0\r\n\r\nSMUGGLED", never: true},
	{name: "TE list", head: "Transfer-Encoding: gzip, chunked\r\n", body: "0\r\n\r\nSMUGGLED", never: true},
	{name: "TE identity", head: "Transfer-Encoding: identity\r\nContent-Length: 3\r\n", body: "{}\nSMUGGLED", never: true},
	{name: "TE xchunked", head: "Transfer-Encoding: xchunked\r\nContent-Length: 3\r\n", body: "{}\nSMUGGLED", never: true},
	{name: "TE quoted", head: "Transfer-Encoding: \"chunked\"\r\n", body: "0\r\n\r\nSMUGGLED", never: true},
	{name: "TE with a semicolon", head: "Transfer-Encoding: chunked;x=1\r\n", body: "0\r\n\r\nSMUGGLED", never: true},
	{name: "TE with a vertical tab", head: "Transfer-Encoding: \x0bchunked\r\n", body: "0\r\n\r\nSMUGGLED", never: true},
	{name: "TE folded", head: "Transfer-Encoding:\r\n chunked\r\nContent-Length: 4\r\n", body: "0\r\n\r\nSMUGGLED"},
	{name: "TE with a space before the colon", head: "Transfer-Encoding : chunked\r\n", body: "0\r\n\r\nSMUGGLED", never: true},
	{name: "TE with a leading space", head: " Transfer-Encoding: chunked\r\n", body: "0\r\n\r\nSMUGGLED"},
	{name: "TE with an underscore", head: "Transfer_Encoding: chunked\r\nContent-Length: 60\r\n", body: strings.Repeat(" ", 60)},
	{name: "TE in HTTP/1.0", head: "HTTP10Transfer-Encoding: chunked\r\n", body: "0\r\n\r\nSMUGGLED"},
	{name: "CL twice", head: "Content-Length: 3\r\nContent-Length: 4\r\n", body: "{}\n\nSMUGGLED", never: true},
	{name: "CL list", head: "Content-Length: 3, 3\r\n", body: "{}\nSMUGGLED", never: true},
	{name: "CL with a plus", head: "Content-Length: +3\r\n", body: "{}\nSMUGGLED", never: true},
	{name: "CL negative", head: "Content-Length: -1\r\n", body: "SMUGGLED", never: true},
	{name: "CL hexadecimal", head: "Content-Length: 0x3\r\n", body: "{}\nSMUGGLED", never: true},
	{name: "CL with a space inside", head: "Content-Length: 3 4\r\n", body: "{}\nSMUGGLED", never: true},
	{name: "CL with a space before the colon", head: "Content-Length : 3\r\n", body: "{}\nSMUGGLED", never: true},
	{name: "CL beyond 64 bits", head: "Content-Length: 18446744073709551619\r\n", body: "{}\nSMUGGLED", never: true},
	{name: "CL empty", head: "Content-Length: \r\n", body: "SMUGGLED", never: true},
	{name: "a chunk size that is none", head: "Transfer-Encoding: chunked\r\n", body: "zz\r\n{}\r\n0\r\n\r\nSMUGGLED", never: true},
	{name: "a chunk size with 0x", head: "Transfer-Encoding: chunked\r\n", body: "0x3\r\n{}\n\r\n0\r\n\r\nSMUGGLED", never: true},
	{name: "a negative chunk size", head: "Transfer-Encoding: chunked\r\n", body: "-1\r\n{}\r\n0\r\n\r\nSMUGGLED", never: true},
	{name: "a chunk size beyond 64 bits", head: "Transfer-Encoding: chunked\r\n", body: "fffffffffffffffff\r\n{}\r\n0\r\n\r\nSMUGGLED", never: true},
	{name: "a chunk longer than its size", head: "Transfer-Encoding: chunked\r\n", body: "2\r\n{}junk\r\n0\r\n\r\nSMUGGLED", never: true},
	{name: "a chunk that ends in LF", head: "Transfer-Encoding: chunked\r\n", body: "2\n{}\n0\n\nSMUGGLED", never: true},
	{name: "a chunk extension with LF", head: "Transfer-Encoding: chunked\r\n", body: "2;\n{}\r\n0\r\n\r\nSMUGGLED", never: true},
	{name: "a chunk extension of 1 MiB", head: "Transfer-Encoding: chunked\r\n", body: "2;" + strings.Repeat("a", 1<<20) + "\r\n{}\r\n0\r\n\r\nSMUGGLED", never: true},
	{name: "a trailer that frames", head: "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n", body: chunked("0\r\nContent-Length: 5\r\n\r\nSMUGGLED")},
	{name: "a NUL in a header", head: "X-A: a\x00b\r\nContent-Length: 0\r\n", body: "SMUGGLED", never: true},
	{name: "a CR in a header", head: "X-A: a\rb\r\nContent-Length: 0\r\n", body: "SMUGGLED", never: true},
	{name: "a bare LF before TE", head: "X-A: a\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n", body: "0\r\n\r\nSMUGGLED"},
	{name: "a line without a colon", head: "Nonsense\r\nContent-Length: 0\r\n", body: "SMUGGLED", never: true},
	{name: "no header name", head: ": x\r\nContent-Length: 0\r\n", body: "SMUGGLED", never: true},
	{name: "two hosts", head: "Host: other\r\nContent-Length: 0\r\n", body: "SMUGGLED", never: true},
	{name: "a packed body", head: "Content-Encoding: gzip\r\nContent-Length: 9999\r\n", body: "SMUGGLED", never: true},
	{name: "a body cut short by the next request", head: "Content-Length: 9999\r\n", body: "SMUGGLED", never: true},
}

// payload is what goes on the wire.
func (p *smuggling) payload(id string) string {
	head, rest := outerHead, p.head
	if after, ok := strings.CutPrefix(rest, "HTTP10"); ok {
		head, rest = strings.Replace(outerHead, "HTTP/1.1", "HTTP/1.0", 1), after
	}
	if strings.Contains(p.body, "\nSMUGGLED") && strings.Contains(p.head, "Content-Length: 3\r\n") {
		rest = "X-Outer: 1\r\n" + rest
	}
	return head + "X-Request-ID: outer-" + id + "\r\n" + rest + "\r\n" + strings.Replace(p.body, "SMUGGLED", smuggled("hidden-"+id), 1)
}

// check holds that at most the outer request was handled.
func (p *smuggling) check(t *testing.T, got rawResult) {
	t.Helper()
	handled := slices.DeleteFunc(slices.Clone(got.replies), func(r rawReply) bool {
		return r.header.Get("X-Request-Id") == "" // the server made nothing of it
	})
	if len(handled) > 1 || (len(got.replies) == 0 && !got.closed) {
		t.Errorf("%d responses came, %d of requests: %+v", len(got.replies), len(handled), got.replies)
	}
	for _, r := range got.replies {
		if p.never && r.status < 400 {
			t.Errorf("it was handled: %d %s", r.status, r.body)
		}
	}
	if !got.closed && strings.Contains(p.body, "SMUGGLED") {
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
	{name: "the same tenant twice", extra: []string{"X-Tenant-ID: a", "x-tenant-id: a"}, status: []int{400}, code: "bad_header"},
	{name: "a list of tenants", extra: []string{"X-Tenant-ID: a, b"}, status: []int{400}, code: "bad_header"},
	{name: "a folded tenant", extra: []string{"X-Tenant-ID: a\r\n evil"}, status: []int{400}, code: "bad_header"},
	{name: "a tenant beyond ASCII", extra: []string{"X-Tenant-ID: t\xe9nant"}, status: []int{400}, code: "bad_header"},
	{name: "a tenant in UTF-8", extra: []string{"X-Tenant-ID: tönant"}, status: []int{400}, code: "bad_header"},
	{name: "a long tenant", extra: []string{"X-Tenant-ID: " + strings.Repeat("a", 65)}, status: []int{400}, code: "bad_header"},
	{name: "an empty tenant", extra: []string{"X-Tenant-ID:"}, status: []int{400}, code: "bad_header"},
	{name: "a tenant with a line break in quotes", extra: []string{`X-Tenant-ID: "a\r\nb"`}, status: []int{400}, code: "bad_header"},
	{name: "two priorities", extra: []string{"X-Priority: low", "X-Priority: high"}, status: []int{400}, code: "bad_header"},
	{name: "an unknown priority", extra: []string{"X-Priority: -9e18"}, status: []int{400}, code: "bad_header"},
	{name: "two hashes", extra: []string{"X-RAG-Hash: a", "X-RAG-Hash: b"}, status: []int{400}, code: "bad_header"},
	{name: "a bad hash", extra: []string{"X-RAG-Hash: a/b"}, status: []int{400}, code: "bad_header"},
	{name: "two tiers", extra: []string{"X-Tier: draft", "X-Tier: target"}, status: []int{400}, code: "bad_header"},
	{name: "two request ids", extra: []string{"X-Request-ID: a", "X-Request-ID: b"}, status: []int{400}, code: "bad_header"},
	{name: "a request id with a slash", extra: []string{"X-Request-ID: ../../etc"}, status: []int{400}, code: "bad_header"},
	{name: "two content types", extra: []string{"Content-Type: application/json", "Content-Type: text/plain"}, status: []int{415}, code: "unsupported_media_type"},
	{name: "a multipart body", extra: []string{"Content-Type: multipart/form-data; boundary=x"}, status: []int{415}, code: "unsupported_media_type"},
	{name: "a form", extra: []string{"Content-Type: application/x-www-form-urlencoded"}, status: []int{415}, code: "unsupported_media_type"},
	{name: "a JSON patch", extra: []string{"Content-Type: application/json-patch+json"}, status: []int{415}, code: "unsupported_media_type"},
	{name: "two types in one", extra: []string{"Content-Type: application/json, text/plain"}, status: []int{415}, code: "unsupported_media_type"},
	{name: "gzip", extra: []string{"Content-Encoding: gzip"}, status: []int{415}, code: "unsupported_encoding"},
	{name: "deflate, twice", extra: []string{"Content-Encoding: ", "Content-Encoding: deflate"}, status: []int{415}, code: "unsupported_encoding"},
	{name: "10,000 headers", extra: manyHeaders(10_000), status: []int{431}},
	{name: "200 short headers", extra: manyHeaders(200), status: []int{431}, code: "too_many_headers"},
	{name: "a header of 1.1 MB", extra: []string{"X-A: " + strings.Repeat("a", 1_100_000)}, status: []int{431}},
	{name: "a header name in UTF-8", extra: []string{"X-Ténant: a"}, status: []int{400}},

	{name: "HEAD", line: "HEAD /v1/chat/completions HTTP/1.1", status: []int{405}},
	{name: "OPTIONS", line: "OPTIONS /v1/chat/completions HTTP/1.1", status: []int{405}, code: "method_not_allowed"},
	{name: "OPTIONS *", line: "OPTIONS * HTTP/1.1", status: []int{400, 404, 405}, code: "bad_request_line"},
	{name: "TRACE", line: "TRACE /v1/models HTTP/1.1", status: []int{405}, code: "method_not_allowed"},
	{name: "PUT", line: "PUT /v1/chat/completions HTTP/1.1", status: []int{405}, code: "method_not_allowed"},
	{name: "CONNECT", line: "CONNECT 169.254.169.254:80 HTTP/1.1", status: []int{400, 404, 405}, code: "bad_request_line"},
	{name: "PRI", line: "PRI * HTTP/2.0", status: []int{400, 404, 405, 505}},
	{name: "an absolute URI", line: "POST http://169.254.169.254/v1/chat/completions HTTP/1.1", status: []int{400}, code: "bad_request_line"},
	{name: "an absolute URI of ours", line: "POST http://gateway/v1/chat/completions HTTP/1.1", status: []int{400}, code: "bad_request_line"},
	{name: "dots", line: "POST /v1/models/../chat/completions HTTP/1.1", status: []int{404}, code: "unknown_url"},
	{name: "dots encoded", line: "POST /v1/models/%2e%2e/chat/completions HTTP/1.1", status: []int{404}, code: "unknown_url"},
	{name: "an encoded slash", line: "POST /v1%2fchat%2fcompletions HTTP/1.1", status: []int{404}, code: "unknown_url"},
	{name: "an engine's path", line: "POST /update_weights HTTP/1.1", status: []int{404}, code: "unknown_url"},
	{name: "the metrics", line: "GET /metrics HTTP/1.1", status: []int{404}, code: "unknown_url"},
	{name: "the profiler", line: "GET /debug/pprof/heap HTTP/1.1", status: []int{404}, code: "unknown_url"},
	{name: "a NUL in the path", line: "POST /v1/chat/completions%00 HTTP/1.1", status: []int{404}, code: "unknown_url"},
	{name: "HTTP/3.0", line: "POST /v1/chat/completions HTTP/3.0", status: []int{400, 505}},
	{name: "no version", line: "POST /v1/chat/completions", status: []int{400}},
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
