package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/identity"
)

// newCaller is an engine whose every answer is a call of one tool with these arguments.
func newCaller(t *testing.T, arguments string) *httptest.Server {
	t.Helper()
	call := fmt.Sprintf(`"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":%q}}]`, arguments)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,%s},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`, call)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		const frame = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{%s},"finish_reason":%s}]}` + "\n\n"
		_, _ = fmt.Fprintf(w, frame, `"role":"assistant",`+call, "null")
		_, _ = fmt.Fprintf(w, frame, "", `"tool_calls"`)
		_, _ = fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s
}

// TestABrokenToolCallIsABadAnswer asks for a tool's call in the Messages API, whose calls hold an object.
func TestABrokenToolCallIsABadAnswer(t *testing.T) {
	const question = `{"model":"llama-3","max_tokens":40,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]`
	for arguments, good := range map[string]bool{`{"path": "/tmp/x"}`: true, "": true, `{"path": "/tmp/x"`: false, "[1]": false} {
		b := limited(t, newCaller(t, arguments).URL, nil, identity.Tenant{ID: "acme"})
		r := b.to(t, messagesPath, "acme", question+`}`)
		if good != (r.status == http.StatusOK) || !good && (r.status != http.StatusBadGateway || !strings.Contains(r.body, `"bad_upstream_response"`)) {
			t.Errorf("%q: %d %s", arguments, r.status, r.body)
		}
		resp, err := b.client.Post(b.url+messagesPath, "application/json", strings.NewReader(question+`,"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		failed := strings.Contains(string(stream), "event: error\n") && strings.Contains(string(stream), `"bad_upstream_response"`)
		if whole := strings.Contains(string(stream), "message_stop"); whole != good || failed == good || (err == nil) != good {
			t.Errorf("%q: %v, %s", arguments, err, stream)
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
