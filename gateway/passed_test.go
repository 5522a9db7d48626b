package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/receipts"
)

// used is what the receipts of a tenant's requests tell, once there are so many.
func (b *bench) used(t *testing.T, tenant string, requests int) (prompt, made uint64) {
	t.Helper()
	var all []receipts.Receipt
	soon(t, "the requests are booked", func() bool {
		all = b.receipts.Last(receipts.Kept, func(f *receipts.Receipt) bool { return f.Tenant == tenant })
		return len(all) == requests
	})
	for i := range all {
		prompt += uint64(all[i].Cascade.PromptTokens)
		made += uint64(all[i].Cascade.AcceptedTokens + all[i].Cascade.TargetTokens)
	}
	return prompt, made
}

// passedPaths are the paths that pass through, each with an answer of its API that tells a usage.
var passedPaths = []struct {
	name, path, members, kind, answer string
	prompt, made                      uint64
	salted                            bool
}{
	{"embeddings", "/v1/embeddings", `"input":["a","b"]`, plainJSON, `{"data":[{"embedding":[0.1,0.2]}],"usage":{"prompt_tokens":700,"total_tokens":700,"completion_tokens":0}}`, 700, 0, true},
	{"score", "/v1/score", `"text_1":"a","text_2":["b","c"]`, plainJSON, `{"data":[],"usage":{"prompt_tokens":600,"total_tokens":600}}`, 600, 0, true},
	{"rerank", "/v1/rerank", `"query":"a"`, plainJSON, `{"results":[],"usage":{"total_tokens":500}}`, 500, 0, true},
	{"a response", "/v1/responses", `"top_logprobs":2,"input":"hi","max_output_tokens":400`, plainJSON, `{"output":[],"usage":{"input_tokens":300,"output_tokens":400,"total_tokens":700}}`, 300, 400, true},
	{"a response's stream", "/v1/responses", `"top_logprobs":2,"input":"hi","stream":true`, plainEvents,
		"event: response.created\ndata: {\"response\":{\"usage\":null}}\n\n" + strings.Repeat("data: {\"delta\":\"a few words\"}\n\n", 20) +
			"event: response.completed\ndata: {\"response\":{\"usage\":{\"input_tokens\":300,\"output_tokens\":410}}}\n\n", 300, 410, true},
	{"a message", "/v1/messages", `"container":"c","messages":[],"max_tokens":400`, plainJSON, `{"content":[],"usage":{"input_tokens":310,"output_tokens":400}}`, 310, 400, true},
	{"a message's stream", "/v1/messages", `"container":"c","messages":[],"max_tokens":400,"stream":true`, plainEvents,
		"data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":320,\"output_tokens\":0}}}\n\n" + strings.Repeat("data: {\"delta\":{\"text\":\"a few words\"}}\n\n", 20) +
			"data: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":390}}\n\n", 320, 390, true},
	{"a stream that tells nothing", "/v1/responses", `"top_logprobs":2,"input":"hi","stream":true`, plainEvents, strings.Repeat("data: {\"delta\":\"x\"}\n\n", 33), 0, 33, true},
	{"tokenize", "/tokenize", `"prompt":"hi"`, plainJSON, `{"count":1,"tokens":[300]}`, 0, 0, false},
}

func TestWhatPassesThroughIsCountedAndSalted(t *testing.T) {
	for _, c := range passedPaths {
		s := &scripted{kind: c.kind, body: c.answer}
		b := passing(t, s, identity.Tenant{ID: "acme"})
		r := b.to(t, c.path, "acme", `{"model":"llama-3",`+c.members+`}`)
		if r.status != http.StatusOK || r.body != c.answer {
			t.Fatalf("%s: %d %s", c.name, r.status, r.body)
		}
		if prompt, made := b.used(t, "acme", 1); prompt != c.prompt || made != c.made {
			t.Errorf("%s: the tenant's totals are %d and %d tokens, want %d and %d", c.name, prompt, made, c.prompt, c.made)
		}
		last := b.receipts.Last(1, func(*receipts.Receipt) bool { return true })
		if got := last[0].Cascade; uint64(got.PromptTokens) != c.prompt || uint64(got.TargetTokens) != c.made || uint64(got.Tries[0].Tokens) != c.made {
			t.Errorf("%s: the receipt has %d and %d tokens", c.name, got.PromptTokens, got.TargetTokens)
		}
		want := fmt.Sprintf("# HELP foregate_tokens_total Tokens by tier and kind: of prompts (prompt), delivered to clients (delivered), drafted for nothing (wasted).\n# TYPE foregate_tokens_total counter\n"+
			"foregate_tokens_total{kind=\"delivered\",tier=\"target\"} %d\nforegate_tokens_total{kind=\"prompt\",tier=\"target\"} %d\n", c.made, c.prompt)
		if err := testutil.GatherAndCompare(b.registry, strings.NewReader(want), "foregate_tokens_total"); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if salt := s.all()[0].body["cache_salt"]; c.salted && salt != "salt of acme" || !c.salted && salt != nil {
			t.Errorf("%s: the salt is %v", c.name, salt)
		}
	}
}

func TestATenantThatHasSpentItsTokensByWhatPassesThroughIsRefused(t *testing.T) {
	for _, c := range passedPaths {
		if c.prompt+c.made < 500 {
			continue
		}
		b := passing(t, &scripted{kind: c.kind, body: c.answer}, identity.Tenant{ID: "acme", TPM: 1000})
		body := `{"model":"llama-3",` + c.members + `}`
		sent, r := 0, reply{}
		for sent < 20 {
			if r = b.to(t, c.path, "acme", body); r.status != http.StatusOK {
				break
			}
			b.used(t, "acme", sent+1) // it is settled
			sent++
		}
		kind, code, _ := r.says()
		want := "tokens"
		if c.path == messagesPath {
			want = "rate_limit_error"
		}
		if r.status != http.StatusTooManyRequests || kind != want || code != "rate_limit_exceeded" || sent > 3 {
			t.Errorf("%s: after %d answers of %d tokens, %d %s", c.name, sent, c.prompt+c.made, r.status, r.body)
		}
	}
}

func TestALimitOfTheAnswerIsPartOfWhatAPassedRequestMayNeed(t *testing.T) {
	s := &scripted{kind: plainJSON, body: `{}`}
	b := passing(t, s, identity.Tenant{ID: "acme", TPM: 1000})
	for path, members := range map[string]string{
		"/v1/responses": `"top_logprobs":2,"input":"hi","max_output_tokens":2000`, "/v1/messages": `"container":"c","messages":[],"max_tokens":2000`,
		"/v1/score": `"text_1":"` + strings.Repeat("q", 100) + `","text_2":[` + strings.Repeat(`"d",`, 99) + `"d"]`,
	} {
		if r := b.to(t, path, "acme", `{"model":"llama-3",`+members+`}`); r.status != http.StatusTooManyRequests || r.head.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if n := len(s.all()); n != 0 {
		t.Errorf("%d reached the backend", n)
	}
}

func TestABackendCannotBillMoreThanCanBe(t *testing.T) {
	const chat = `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":%s}`
	const stream = `data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}` + "\n\n" +
		`data: {"id":"x","model":"m","choices":[],"usage":%s}` + "\n\ndata: [DONE]\n\n"
	for _, usage := range []string{
		`{"prompt_tokens":1000000000000,"completion_tokens":1000000000000}`, `{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}`,
		`{"input_tokens":1000000000000,"output_tokens":1000000000000,"cache_read_input_tokens":1000000000000}`,
		`{"prompt_tokens":-1000000000000,"completion_tokens":-5}`, `{"prompt_tokens":1e12,"completion_tokens":"5"}`, `{"total_tokens":1000000000000}`,
	} {
		for _, c := range []struct {
			path, members, kind, answer string
			made                        uint64 // at most
		}{
			{"/v1/chat/completions", `"messages":[{"role":"user","content":"hi"}],"max_tokens":50`, plainJSON, chat, 50},
			{"/v1/chat/completions", `"messages":[{"role":"user","content":"hi"}],"max_tokens":50,"stream":true`, plainEvents, stream, 50},
			{"/v1/chat/completions", `"messages":[{"role":"user","content":"hi"}],"stream":true`, plainEvents, stream, 400},
			{"/v1/completions", `"prompt":["hi","ho"],"n":3,"max_tokens":50`, plainJSON, chat, 300},
			{"/v1/embeddings", `"input":"hi","max_tokens":50`, plainJSON, `{"usage":%s}`, 0},
			{"/v1/responses", `"top_logprobs":2,"input":"hi","max_output_tokens":50`, plainJSON, `{"usage":%s}`, 50},
			{"/v1/responses", `"top_logprobs":2,"input":"hi","stream":true`, plainEvents, "data: {\"response\":{\"usage\":%s}}\n\n", 400},
		} {
			b := passing(t, &scripted{kind: c.kind, body: fmt.Sprintf(c.answer, usage)}, identity.Tenant{ID: "acme", TPM: 100_000_000})
			body := `{"model":"llama-3",` + c.members + `}`
			if r := b.to(t, c.path, "acme", body); r.status != http.StatusOK {
				t.Fatalf("%s, %s: %d %s", c.path, usage, r.status, r.body)
			}
			prompt, made := b.used(t, "acme", 1)
			if maximum := uint64(len(body)) + 5000; prompt > maximum || made > c.made {
				t.Errorf("%s, %s, %s: %d and %d tokens, want at most %d and %d", c.path, c.members, usage, prompt, made, maximum, c.made)
			}
		}
	}
}

func TestWhatPassesThroughIsJSONOrEventsAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		kind, coding, body string
		want               string // "": it is refused
	}{
		{"application/json", "", `{"a":1}`, "application/json"},
		{"application/json; charset=utf-7", "", `{"a":1}`, "application/json"},
		{"application/json", "identity", `{"a":1}`, "application/json"},
		{"text/event-stream", "", "data: {}\n\n", "text/event-stream; charset=utf-8"},
		{"text/event-stream;charset=utf-16", "", "data: {}\n\n", "text/event-stream; charset=utf-8"},
		{"text/html; charset=utf-8", "", "<script>alert(1)</script>", ""},
		{"text/plain", "", "x", ""}, {"image/svg+xml", "", "<svg/>", ""}, {"application/octet-stream", "", "x", ""}, {"", "", "x", ""}, {";", "", "x", ""},
		{"application/json", "gzip", `{"a":1}`, ""},
	} {
		s := &scripted{kind: c.kind, body: c.body, head: http.Header{
			"Set-Cookie": {"a=b"}, "Location": {"http://evil"}, "X-Evil": {"1"}, "Access-Control-Allow-Origin": {"*"}, "Content-Disposition": {"inline"}, "Refresh": {"0"},
		}}
		if c.coding != "" {
			s.head.Set("Content-Encoding", c.coding)
		}
		b := passing(t, s, identity.Tenant{ID: "acme"})
		r := b.to(t, "/v1/responses", "acme", `{"model":"llama-3","top_logprobs":2,"input":"hi"}`)
		if r.head.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%q: X-Content-Type-Options is %q", c.kind, r.head.Get("X-Content-Type-Options"))
		}
		for name := range s.head {
			if r.head.Get(name) != "" {
				t.Errorf("%q: %s of the backend reached the client", c.kind, name)
			}
		}
		switch {
		case c.want != "" && (r.status != http.StatusOK || r.head.Get("Content-Type") != c.want || r.body != c.body):
			t.Errorf("%q: %d %q %s", c.kind, r.status, r.head.Get("Content-Type"), r.body)
		case c.want == "" && (r.status != http.StatusBadGateway || r.head.Get("Content-Type") != "application/json" || strings.Contains(r.body, c.body) && c.body != "x"):
			t.Errorf("%q, %q: %d %q %s", c.kind, c.coding, r.status, r.head.Get("Content-Type"), r.body)
		}
	}
}

// What a backend calls an answer that is not 200 is its own affair: a client sees the gateway's words.
func TestOnlyA200PassesThrough(t *testing.T) {
	for status, want := range map[int]int{
		http.StatusCreated: http.StatusBadGateway, http.StatusPartialContent: http.StatusBadGateway, http.StatusNoContent: http.StatusBadGateway,
		http.StatusFound: http.StatusBadGateway, http.StatusUnauthorized: http.StatusBadGateway, http.StatusForbidden: http.StatusBadGateway,
		http.StatusBadRequest: http.StatusBadRequest, http.StatusInternalServerError: http.StatusBadGateway,
	} {
		s := &scripted{kind: plainJSON, status: status, head: http.Header{"Location": {"http://evil"}, "Www-Authenticate": {"Basic"}, "Set-Cookie": {"a=b"}}}
		r := passing(t, s, identity.Tenant{ID: "acme"}).to(t, "/v1/embeddings", "acme", `{"model":"llama-3","input":"hi"}`)
		if r.status != want || r.head.Get("Content-Type") != plainJSON || r.head.Get("Location")+r.head.Get("Www-Authenticate")+r.head.Get("Set-Cookie") != "" {
			t.Errorf("%d: %d %v %s", status, r.status, r.head, r.body)
		}
	}
}

// TestAPathThatEnginesDoNotServeIsNotFound has what vLLM, SGLang and llama.cpp say of a path, and what they say of a model: only that is
// the gateway's fault.
func TestAPathThatEnginesDoNotServeIsNotFound(t *testing.T) {
	for answer, want := range map[string]int{
		`{"detail":"Not Found"}`: http.StatusNotFound,
		`{"error":{"message":"File Not Found","type":"not_found_error","code":404}}`: http.StatusNotFound,
		`404 page not found`: http.StatusNotFound,
		`{"error":{"message":"The model ` + "`m`" + ` does not exist.","type":"NotFoundError","param":"model","code":404}}`: http.StatusBadGateway,
		`{"error":{"message":"model 'm' not found","type":"not_found_error","code":404}}`:                                   http.StatusBadGateway,
	} {
		for _, status := range []int{http.StatusNotFound, http.StatusMethodNotAllowed} {
			s := &scripted{kind: plainJSON, status: status, body: answer}
			r := passing(t, s, identity.Tenant{ID: "acme"}).to(t, "/v1/rerank", "acme", `{"model":"llama-3","query":"a"}`)
			if _, _, message := r.says(); r.status != want || want == http.StatusNotFound && message != "The engines of this model do not serve /v1/rerank." {
				t.Errorf("%d %s: %d %s", status, answer, r.status, r.body)
			}
		}
	}
}

func TestEqualIDsOfClientsNeverMeetInAnEngineAndEachIsFoundByTheOther(t *testing.T) {
	const answer = `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`
	s := &scripted{kind: plainJSON, body: answer}
	b := passing(t, s, identity.Tenant{ID: "acme"}, identity.Tenant{ID: "emca"})
	for _, path := range []string{"/v1/chat/completions", "/v1/embeddings"} {
		for _, tenant := range []string{"acme", "emca"} {
			r := b.to(t, path, tenant, `{"model":"llama-3","messages":[{"role":"user","content":"hi"}],"input":"hi"}`, "X-Request-ID", "order-7")
			if r.status != http.StatusOK || r.head.Get("X-Request-ID") != "order-7" {
				t.Errorf("%s: %d, X-Request-ID %q", path, r.status, r.head.Get("X-Request-ID"))
			}
		}
	}
	b.used(t, "acme", 2)
	b.used(t, "emca", 2)
	told := map[string]bool{}
	for _, one := range s.all() {
		id := one.head.Get("X-Request-Id")
		if told[id] || len(id) < 32 || strings.Contains(id, "order-7") {
			t.Errorf("%s: the engine was told %q, after %v", one.path, id, told)
		}
		told[id] = true
	}
	for _, r := range b.receiptsOf(t, "") {
		if r.Client != "order-7" || len(r.Attempts) != 1 || !told[r.ID+"-"+r.Attempts[0].Call] {
			t.Fatalf("%+v", r)
		}
		delete(told, r.ID+"-"+r.Attempts[0].Call)
	}
	if len(told) != 0 {
		t.Errorf("no receipt tells of %v", told)
	}
}

// TestAStreamBreaksOffInTheFormOfItsAPI breaks off what the cascade answers, and what the target's engine answers itself.
func TestAStreamBreaksOffInTheFormOfItsAPI(t *testing.T) {
	const passedOn = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	up := &scripted{write: func(w http.ResponseWriter, q seen, _ int) {
		event := passedOn
		if q.path == chatPath {
			event = "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n"
		}
		w.Header().Set("Content-Type", plainEvents)
		_, _ = io.WriteString(w, event)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}}
	b := limited(t, up.start(t), func(o *Options) { o.Forward = []string{messagesPath, responsesPath, "/v1/rerank"} }, identity.Tenant{ID: "acme"})
	const words = `"All tries to get an answer failed."`
	inMessages := `{"type":"error","error":{"type":"api_error","message":` + words + `,"code":"upstream_cut"},"request_id":"mine"}`
	inResponses := `{"type":"error","sequence_number":%d,"code":"upstream_cut","message":` + words + `,"param":null,"error":{"message":` + words + `,"type":"server_error","code":"upstream_cut"}}`
	for _, c := range []struct{ path, members, want string }{
		{messagesPath, `"max_tokens":9,"messages":[{"role":"user","content":"hi"}]`, inMessages},
		{messagesPath, `"max_tokens":9,"messages":[{"role":"user","content":"hi"}],"container":"c"`, inMessages},
		{responsesPath, `"input":"hi"`, fmt.Sprintf(inResponses, 5)},
		{responsesPath, `"input":"hi","top_logprobs":2`, fmt.Sprintf(inResponses, 0)},
		{"/v1/rerank", `"query":"hi"`, `{"error":{"message":` + words + `,"type":"server_error","param":null,"code":"upstream_cut"}}`},
	} {
		r, err := b.do(newRequest(t.Context(), http.MethodPost, b.url+c.path, `{"model":"llama-3","stream":true,`+c.members+`}`, jsonOf("acme", "X-Request-ID", "mine")...))
		text := r.body
		if _, last, _ := strings.Cut(text, "event: error\ndata: "); err == nil || last != c.want+"\n\n" {
			t.Errorf("%s %s: %v\ngot  %s\nwant %s", c.path, c.members, err, text, c.want)
		}
		if strings.Contains(text, `"msg_mine"`) {
			t.Errorf("%s: the answer has the client's id, which need not be unique: %s", c.path, text)
		}
	}
}
