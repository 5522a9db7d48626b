package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// streamForms are what engines and the proxies before them write between the chunks of a stream, with no meaning.
var streamForms = map[string]string{
	"data-without-value": "data:\n\n",
	"blanks":             "data:  \t\n\n",
	"bare-data":          "data\n\n",
	"ping":               "event: ping\ndata:\n\n",
	"null":               "data: null\n\n",
	"list":               "data: []\n\n",
	"null-choices":       `data: {"choices":null}` + "\n\n",
	"null-delta":         `data: {"choices":[{"index":0,"delta":null,"finish_reason":null}]}` + "\n\n",
	"null-delta-at-end":  "",
	"byte-order-mark":    "\ufeff",
	"usage-without-done": "",
}

// formEngine streams "Hello world" in the form that the request's text names.
func formEngine(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, form, _ := strings.Cut(string(body), "form:")
	form, _, _ = strings.Cut(form, `"`)
	between, known := streamForms[form]
	if !known {
		http.NotFound(w, r) // of what the probe asks
		return
	}
	end := `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	if form == "null-delta-at-end" {
		end = strings.Replace(end, "{},", "null,", 1)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, data := range []string{
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
		`{"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}`,
		`{"choices":[{"index":0,"delta":{"content":" world"},"finish_reason":null}]}`,
		end, `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`, "[DONE]",
	} {
		if data == "[DONE]" && form == "usage-without-done" {
			return
		}
		_, _ = io.WriteString(w, between+"data: "+data+"\n\n")
		_ = http.NewResponseController(w).Flush()
	}
}

func TestEveryFormOfAStreamIsOneAnswerInEachAPI(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(formEngine))
	t.Cleanup(engine.Close)
	p := apptest.Serve(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndrain: {delay: 0s, grace: 2s}\n"+
		"pools:\n  t: {model: m, engine: vllm, backends: [\""+engine.URL+"\"]}\nroutes:\n  - {model: m, target: t}\n")
	for form := range streamForms {
		message := `"messages":[{"role":"user","content":"form:` + form + `"}]`
		for path, c := range map[string]struct{ body, end string }{
			"/v1/chat/completions": {`{"model":"m","stream":true,"stream_options":{"include_usage":true},` + message + `}`, "data: [DONE]\n\n"},
			"/v1/messages":         {`{"model":"m","stream":true,"max_tokens":9,` + message + `}`, `{"type":"message_stop"}`},
			"/v1/responses":        {`{"model":"m","stream":true,"store":false,"input":"form:` + form + `"}`, `"type":"response.completed"`},
		} {
			got, _ := apptest.Post(t, p.URL+path, c.body)
			if !strings.Contains(got, "Hello") || !strings.Contains(got, " world") || !strings.Contains(got, c.end) || strings.Contains(got, `"delta":null`) {
				t.Errorf("%s, %s: %s", form, path, got)
			}
			if n := strings.Count(got, `"completion_tokens":2`); n != 1 && path == "/v1/chat/completions" {
				t.Errorf("%s: %d chunks have the usage: %s", form, n, got)
			}
		}
	}
	if failed := apptest.Lines(p.Metrics(t), "foregate_upstream_failures_total{"); failed != "" {
		t.Errorf("a backend is at fault: %s", failed)
	}
}
