package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// counting is a gateway before a scripted engine of a kind; its configuration forwards paths.
func counting(t *testing.T, s *scripted, kind dialect.Kind, forward ...string) *bench {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	target, err := pool.New(pool.Options{Name: "engines", Model: "m", Backends: []string{srv.URL}, Engine: kind})
	if err != nil {
		t.Fatal(err)
	}
	cfg := plan.Config{Timeouts: plan.Timeouts{TargetFirstToken: 20 * time.Second, StreamIdle: 20 * time.Second, Total: time.Minute}}
	return limited(t, srv.URL, func(o *Options) {
		o.Forward = forward
		o.Cascade.SetRoutes([]tiers.Route{{Model: "llama-3", Target: target, Config: func() plan.Config { return cfg }}})
		background(t, target.Run)
	}, identity.Tenant{ID: "acme"}, identity.Tenant{ID: "globex", TPM: 10, RPM: 3})
}

const countedMessage = `{"model":"llama-3","system":"be short","messages":[{"role":"user","content":"What is the weather in Rome, and is it the same in Paris?"}],` +
	`"tools":[{"name":"weather","input_schema":{"type":"object"}}]`

func TestEnginesWithATokenizerCountTheTokensOfAMessage(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    dialect.Kind
		members string
		forward []string
		status  int    // of the engine; 0 is 200
		answer  string // the engine's
		asked   string // paths at the engine
		code    int
		want    string
	}{
		{name: "vLLM", kind: dialect.VLLM, answer: `{"count":3,"tokens":[5,6,7]}`, asked: "/tokenize", code: 200, want: `{"input_tokens":3}`},
		{name: "SGLang", kind: dialect.SGLang, answer: `{"count":3,"tokens":[5,6,7]}`, asked: "/tokenize", code: 200, want: `{"input_tokens":3}`},
		{name: "llama.cpp", kind: dialect.LlamaCpp, answer: `{"prompt":"<user>","tokens":[5,6,7]}`, asked: "/apply-template /tokenize", code: 200, want: `{"input_tokens":3}`},
		{name: "listed", kind: dialect.VLLM, forward: []string{countTokensPath}, answer: `{"tokens":[5]}`, asked: "/tokenize", code: 200, want: `{"input_tokens":1}`},
		{name: "only the engine's", kind: dialect.VLLM, members: `,"container":"c"`, forward: []string{countTokensPath}, answer: `{"input_tokens":9}`, asked: countTokensPath, code: 200, want: `{"input_tokens":9}`},
		{name: "refused", kind: dialect.VLLM, members: `,"container":"c"`, code: 400, want: `container is not supported`},
		{name: "a field's value", kind: dialect.VLLM, members: `,"max_tokens":0`, code: 400, want: `max_tokens is required, and is a whole number of at least 1.`},
		{name: "the engine refuses", kind: dialect.VLLM, status: 400, answer: `{"error":{"message":"At most 0 image(s) may be provided"}}`, asked: "/tokenize", code: 400, want: `{"type":"error","error":{"type":"invalid_request_error","message":"At most 0 image(s) may be provided"`},
		{name: "no such path", kind: dialect.VLLM, status: 404, answer: `{"detail":"Not Found"}`, asked: "/tokenize", code: 404, want: `"not_found_error","message":"The engines of this model do not serve /tokenize."`},
		{name: "no tokenizer", kind: dialect.OpenAI, code: 404, want: `{"type":"error","error":{"type":"not_found_error","message":"The engines of this model tell no tokens of a prompt. An operator can list /v1/messages/count_tokens under passthrough`},
		{name: "no tokenizer, listed", kind: dialect.OpenAI, forward: []string{countTokensPath}, answer: `{"input_tokens":9}`, asked: countTokensPath, code: 200, want: `{"input_tokens":9}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scripted{kind: plainJSON, body: c.answer, status: c.status}
			r := counting(t, s, c.kind, c.forward...).to(t, countTokensPath, "acme", countedMessage+c.members+`}`)
			if r.status != c.code || !strings.Contains(r.body, c.want) {
				t.Errorf("%d %s", r.status, r.body)
			}
			var paths []string
			for _, q := range s.all() {
				paths = append(paths, q.path)
				if messages, _ := q.body["messages"].([]any); q.path == "/tokenize" && c.kind != dialect.LlamaCpp && (len(messages) != 2 || q.body["tools"] == nil || q.body["model"] != "m") {
					t.Errorf("the engine was asked %v", q.body)
				}
			}
			if got := strings.Join(paths, " "); got != c.asked {
				t.Errorf("the engine was asked at %q, want %q", got, c.asked)
			}
		})
	}
}

// TestACountIsARequestOfNoTokens counts a prompt above the tenant's tokens per minute. The second request comes too soon.
func TestACountIsARequestOfNoTokens(t *testing.T) {
	b := counting(t, &scripted{kind: plainJSON, body: `{"tokens":[` + strings.Repeat("1,", 99) + `1]}`}, dialect.VLLM)
	if r := b.to(t, countTokensPath, "globex", countedMessage+`}`); r.body != `{"input_tokens":100}` {
		t.Errorf("%d %s", r.status, r.body)
	}
	if prompt, made := b.used(t, "globex", 1); prompt != 0 || made != 0 {
		t.Errorf("%d and %d tokens are booked", prompt, made)
	}
	if r := b.to(t, countTokensPath, "globex", countedMessage+`}`); r.status != http.StatusTooManyRequests || !strings.Contains(r.body, `"rate_limit_error"`) {
		t.Errorf("above the requests per minute: %d %s", r.status, r.body)
	}
	r := b.to(t, countTokensPath, "acme", strings.Replace(countedMessage, "llama-3", "other", 1)+`}`)
	if kind, _, _ := r.says(); r.status != http.StatusNotFound || kind != "not_found_error" {
		t.Errorf("another model: %d %s", r.status, r.body)
	}
}
