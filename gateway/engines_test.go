package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

// scripted is an engine that answers every POST by a script, and remembers what it was asked.
type scripted struct {
	kind, body string                               // the answer: its type and bytes
	head       http.Header                          // more of it
	status     int                                  // 0 is 200
	write      func(http.ResponseWriter, seen, int) // the n-th answer; nil: that of the fields above

	mu   sync.Mutex
	seen []seen
}

// seen is a request as an engine got it.
type seen struct {
	path string
	head http.Header
	body map[string]any
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway left
	}
	one := seen{path: r.URL.Path, head: r.Header.Clone()}
	_ = json.Unmarshal(raw, &one.body) // the gateway sends JSON
	s.mu.Lock()
	s.seen = append(s.seen, one)
	n := len(s.seen)
	s.mu.Unlock()
	if s.write != nil {
		s.write(w, one, n)
		return
	}
	for name, values := range s.head {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", s.kind)
	w.WriteHeader(cmp.Or(s.status, http.StatusOK))
	_, _ = io.WriteString(w, s.body)
}

func (s *scripted) all() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// start returns the engine's URL.
func (s *scripted) start(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return srv.URL
}

// answerChat answers a chat: with a message that has these members, or, where it asks for a stream, with these deltas.
func answerChat(w http.ResponseWriter, q seen, finish, message string, deltas ...string) {
	n := len(deltas)
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":7,"completion_tokens":%d,"total_tokens":%d}`, n, 7+n)
	if q.body["stream"] != true {
		w.Header().Set("Content-Type", plainJSON)
		_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",%s},"finish_reason":%q}],%s}`, message, finish, usage)
		return
	}
	w.Header().Set("Content-Type", plainEvents)
	const chunk = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]%s}` + "\n\n"
	for _, delta := range deltas {
		_, _ = fmt.Fprintf(w, chunk, `{"index":0,"delta":{`+delta+`},"finish_reason":null}`, "")
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = fmt.Fprintf(w, chunk, `{"index":0,"delta":{},"finish_reason":"`+finish+`"}`, "")
	_, _ = fmt.Fprintf(w, chunk+"data: [DONE]\n\n", "", ","+usage)
}

// speaker is an engine whose n-th answer is these pieces; nil: "It is answer N."
func speaker(pieces func(prompt string) []string) *scripted {
	return &scripted{write: func(w http.ResponseWriter, q seen, n int) {
		said := []string{"It is", fmt.Sprintf(" answer %d.", n)}
		if pieces != nil {
			said = pieces(fmt.Sprint(q.body["messages"]))
		}
		var deltas []string
		for _, p := range said {
			deltas = append(deltas, fmt.Sprintf(`"content":%q`, p))
		}
		answerChat(w, q, "stop", fmt.Sprintf(`"content":%q`, strings.Join(said, "")), deltas...)
	}}
}

// passing is a gateway before a scripted engine, with paths that pass through.
func passing(t *testing.T, s *scripted, tenants ...identity.Tenant) *bench {
	t.Helper()
	return limited(t, s.start(t), func(o *Options) {
		o.Forward = []string{"/v1/embeddings", responsesPath, messagesPath, "/tokenize", "/v1/rerank", "/v1/score"}
		o.Salt = func(tenant string) string { return "salt of " + tenant }
	}, tenants...)
}

// pacedEngine is an engine whose test decides when it writes.
type pacedEngine struct {
	url     string
	tokens  chan string   // the next one to write
	arrived chan struct{} // a request
	left    chan struct{} // a request whose client has hung up
}

func newPacedEngine(t *testing.T) *pacedEngine {
	t.Helper()
	e := &pacedEngine{tokens: make(chan string), arrived: make(chan struct{}, 1000), left: make(chan struct{}, 1000)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server hear that the gateway leaves
		e.arrived <- struct{}{}
		w.Header().Set("Content-Type", plainEvents)
		for {
			select {
			case <-r.Context().Done():
				e.left <- struct{}{}
				return
			case token := <-e.tokens:
				if token == "" {
					_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
					return
				}
				_, _ = fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n", token)
				_ = http.NewResponseController(w).Flush()
			}
		}
	}))
	t.Cleanup(srv.Close)
	e.url = srv.URL
	return e
}

// flood is an engine whose events never end, and come as fast as they are taken.
func flood(t *testing.T) (url string, left <-chan struct{}) {
	t.Helper()
	gone := make(chan struct{}, 16)
	event := `data: {"model":"m","choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 32<<10) + `"},"finish_reason":null}]}` + "\n\n"
	s := &scripted{write: func(w http.ResponseWriter, _ seen, _ int) {
		defer func() { gone <- struct{}{} }()
		w.Header().Set("Content-Type", plainEvents)
		for err := error(nil); err == nil; {
			_, err = io.WriteString(w, event)
		}
	}}
	return s.start(t), gone
}

// expect waits until something has happened.
func expect(t *testing.T, what string, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(20 * time.Second):
		t.Fatalf("not within 20 s: %s", what)
	}
}
