package upstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// newClient is a client with connections of its own.
func newClient(t testing.TB, o Options) *Client {
	t.Helper()
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

// serve starts a backend that does as told, and returns its URL.
func serve(t testing.TB, do http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(do)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// at is an attempt with times that no test reaches.
func at(url string, call engine.Call) *engine.Attempt {
	return &engine.Attempt{Call: call, Backend: "b", URL: url, FirstByteTimeout: time.Minute, IdleTimeout: time.Minute, MaxAnswer: 1000}
}

// say streams events.
func say(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		_, _ = io.WriteString(w, "data: "+e+"\n\n")
		_ = http.NewResponseController(w).Flush()
	}
}

// write answers in one piece.
func write(w http.ResponseWriter, kind, body string) {
	w.Header().Set("Content-Type", kind)
	_, _ = io.WriteString(w, body)
}

const (
	aChunk  = `{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null,"token_ids":[5],"logprobs":{"content":[{"logprob":-0.5,"top_logprobs":[{"logprob":-0.5},{"logprob":-1}]}]}}],"prompt_token_ids":[1,2]}`
	anEnd   = `{"choices":[{"index":0,"delta":{"content":" you"},"finish_reason":"stop"}]}`
	itsUse  = `{"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}`
	aWhole  = `{"model":"big","choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":1}}`
	aStream = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	aPlain  = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
)

// relay asks for an answer as it is, streamed or not.
func relay(t testing.TB, body string) *engine.Relay {
	t.Helper()
	return &engine.Relay{Terms: engine.Terms{Model: "big"}, Request: scan(t, openai.Chat, body), Into: new(openai.Chunk)}
}

// drain reads a stream to its end: the texts of its chunks and the error, nil behind the last chunk.
func drain(s engine.Stream) (texts []string, err error) {
	for {
		c, err := s.Next(engine.WantTokens)
		if err == io.EOF {
			return texts, nil
		}
		if err != nil {
			return texts, err
		}
		texts = append(texts, string(c.Text))
	}
}

// failureOf is the failure that an error is; the test fails for any other.
func failureOf(t testing.TB, err error) *engine.Failure {
	t.Helper()
	f, ok := errors.AsType[*engine.Failure](err)
	if !ok {
		t.Fatalf("%v is no failure", err)
	}
	if f.Pool != "" || f.Backend != "" {
		t.Errorf("%+v names pool and backend, which only dispatch knows", f)
	}
	return f
}

// formatFailure words what dispatch goes by in a failure.
func formatFailure(f *engine.Failure) string {
	return fmt.Sprintf("%s %d %d", f.Kind, f.Status, f.Responded)
}

// eventually polls until what is true holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// encoded is encode for vLLM.
func encoded(call engine.Call) (path string, body []byte) {
	path, body, err := encode(call, dialect.Of(dialect.VLLM))
	if err != nil {
		panic(err)
	}
	return path, body
}

// open opens an attempt, and closes it at the end of the test.
func open(t testing.TB, c *Client, a *engine.Attempt) engine.Stream {
	t.Helper()
	s, err := c.Open(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
