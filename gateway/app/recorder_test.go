package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/foregate/foregate/tiers/dialect"
)

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
