package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// TestABrokenToolCallIsABadAnswer asks for a tool's call in the Messages API, whose calls hold an object.
func TestABrokenToolCallIsABadAnswer(t *testing.T) {
	const question = `{"model":"llama-3","max_tokens":40,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]`
	for arguments, good := range map[string]bool{`{"path": "/tmp/x"}`: true, "": true, `{"path": "/tmp/x"`: false, "[1]": false} {
		call := fmt.Sprintf(`"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":%q}}]`, arguments)
		up := &scripted{write: func(w http.ResponseWriter, q seen, _ int) {
			answerChat(w, q, "tool_calls", `"content":null,`+call, call)
		}}
		b := limited(t, up.start(t), nil, identity.Tenant{ID: "acme"})
		r := b.to(t, messagesPath, "acme", question+`}`)
		if good != (r.status == http.StatusOK) || !good && (r.status != http.StatusBadGateway || !strings.Contains(r.body, `"bad_upstream_response"`)) {
			t.Errorf("%q: %d %s", arguments, r.status, r.body)
		}
		r, err := b.do(newRequest(t.Context(), http.MethodPost, b.url+messagesPath, question+`,"stream":true}`, jsonOf("acme")...))
		failed := strings.Contains(r.body, "event: error\n") && strings.Contains(r.body, `"bad_upstream_response"`)
		if whole := strings.Contains(r.body, "message_stop"); whole != good || failed == good || (err == nil) != good {
			t.Errorf("%q: %v, %s", arguments, err, r.body)
		}
	}
}

func TestARefusalOfWhatOnlyEnginesServeSaysWhy(t *testing.T) {
	b := limited(t, simulator(t).URL(), nil, identity.Tenant{ID: "acme"})
	const chat = `{"model":"llama-3","max_tokens":9,"messages":[{"role":"user","content":"x"}`
	for _, c := range []struct{ path, body, want string }{
		{responsesPath, `{"model":"llama-3","input":"x","store":true}`, "store is not supported: responses are not stored here, so send the whole conversation as input, with store: false. An operator can list /v1/responses"},
		{responsesPath, `{"model":"llama-3","input":"x","n":2}`, "n is not supported: this gateway does not know it. "},
		{responsesPath, `{"model":"llama-3","input":[{"id":"msg_1"}]}`, "input[0].id is not supported: responses are not stored here"},
		{messagesPath, chat + `,{"role":"assistant","content":"{"}]}`, "messages[1].role is not supported: this gateway does not go on with an answer that the client has begun. "},
		{messagesPath, chat + `],"mcp_servers":[{"name":"a"}]}`, "mcp_servers is not supported: this gateway takes only tools that the client defines and runs. "},
	} {
		if r := b.to(t, c.path, "acme", c.body); r.status != http.StatusBadRequest || !strings.Contains(r.body, c.want) || !strings.Contains(r.body, `"unsupported_parameter"`) {
			t.Errorf("%s: %d %s", c.body, r.status, r.body)
		}
	}
}

// counting is a gateway before a scripted engine of a kind; its configuration forwards paths.
func counting(t *testing.T, s *scripted, kind dialect.Kind, forward ...string) *bench {
	t.Helper()
	url := s.start(t)
	target, err := pool.New(pool.Options{Name: "engines", Model: "m", Backends: []string{url}, Engine: kind})
	if err != nil {
		t.Fatal(err)
	}
	cfg := plan.Config{Timeouts: plan.Timeouts{TargetFirstToken: 20 * time.Second, StreamIdle: 20 * time.Second, Total: time.Minute}}
	return limited(t, url, func(o *Options) {
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
