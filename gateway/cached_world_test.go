package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/world"
)

// speaker is a backend that says what a test wants, and remembers what it was asked.
type speaker struct {
	*httptest.Server
	calls  atomic.Int64
	pieces func(prompt string) []string // of a stream; nil is two words
	status atomic.Int64                 // of the answers, 0 is 200
	finish atomic.Value                 // string; nil is stop

	mu     sync.Mutex
	bodies []map[string]any
}

func newSpeaker(t *testing.T) *speaker {
	s := &speaker{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	return s
}

func (s *speaker) answer(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	var in map[string]any
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &in)
	s.mu.Lock()
	s.bodies = append(s.bodies, in)
	s.mu.Unlock()
	n := s.calls.Add(1)
	if code := int(s.status.Load()); code != 0 {
		http.Error(w, `{"error":{"message":"no"}}`, code)
		return
	}
	pieces := []string{"It is", fmt.Sprintf(" answer %d.", n)}
	if s.pieces != nil {
		pieces = s.pieces(fmt.Sprint(in["messages"]))
	}
	finish, _ := s.finish.Load().(string)
	if finish == "" {
		finish = "stop"
	}
	if in["stream"] == true {
		s.stream(w, pieces, finish)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"id":"chatcmpl-up","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"logprobs":null,"finish_reason":%q,"stop_reason":null}],"usage":{"prompt_tokens":7,"completion_tokens":%d,"total_tokens":%d}}`,
		strings.Join(pieces, ""), finish, len(pieces), 7+len(pieces))
}

func (s *speaker) stream(w http.ResponseWriter, pieces []string, finish string) {
	w.Header().Set("Content-Type", "text/event-stream")
	c := http.NewResponseController(w)
	const frame = "data: {\"id\":\"chatcmpl-up\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"logprobs\":null,\"finish_reason\":%s}]}\n\n"
	_, _ = fmt.Fprintf(w, frame, `{"role":"assistant","content":""}`, "null")
	for _, p := range pieces {
		text, _ := json.Marshal(p)
		_, _ = fmt.Fprintf(w, frame, `{"content":`+string(text)+`}`, "null")
		_ = c.Flush()
	}
	_, _ = fmt.Fprintf(w, frame, "{}", `"`+finish+`"`)
	_, _ = fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\ndata: [DONE]\n\n", len(pieces), 7+len(pieces))
}

// asked are the values of a field in the bodies so far.
func (s *speaker) asked(field string) (out []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bodies {
		out = append(out, b[field])
	}
	return out
}

// kept is a Redis of answers that several gateways may share.
type kept struct {
	*miniredis.Miniredis
}

func newKept(t *testing.T) *kept {
	t.Helper()
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	return &kept{m}
}

func (k *kept) client(t *testing.T) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: k.Addr(), MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// answers are the keys of kept answers.
func (k *kept) answers() (names []string) {
	for _, name := range k.Keys() {
		if strings.HasPrefix(name, "foregate:cache:") && !strings.HasPrefix(name, "foregate:cache:lead:") {
			names = append(names, name)
		}
	}
	return names
}

// cacheBench is a gateway with a cache.
type cacheBench struct {
	*bench
}

func startCached(t *testing.T, backend string, k *kept, adjust func(*Options)) *cacheBench {
	t.Helper()
	b := &cacheBench{}
	b.bench = startBench(t, backend, func(g *Options) {
		withCache(t, g, k)
		if adjust != nil {
			adjust(g)
		}
	})
	soon(t, "the cache hears of purges", func() bool { // before that nothing is kept
		_, ok := b.opts.Cache.Epochs("default", "llama-3")
		return ok
	})
	return b
}

// withCache gives a gateway a cache that keeps answers in k.
func withCache(t *testing.T, g *Options, k *kept) {
	t.Helper()
	sealer, err := cache.NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	g.Cache = cache.NewStore(cache.Options{Redis: k.client(t), Sealer: sealer, Budget: func() time.Duration { return 5 * time.Second }, LocalBytes: -1})
	g.Generations = tiers.NewGenerations(world.System{})
	g.Salt = sealer.Salt
	background(t, g.Cache.Run)
}

// clientResult is what a client makes of an answer.
type clientResult struct {
	code    int
	header  http.Header
	text    string
	finish  string
	usage   *usageReply
	done    bool // a stream's terminator, or a whole JSON body
	extra   map[string]any
	id      string
	broken  bool // an error event, or a cut body
	message string
}

type usageReply struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// question is a chat request; more is put into the body as it is.
type question struct {
	content string
	stream  bool
	more    string
	header  map[string]string

	sampling string // fields; "" is temperature 0
}

func (b *cacheBench) say(ctx context.Context, q question) clientResult {
	if q.content == "" {
		q.content = "What is it?"
	}
	content, _ := json.Marshal(q.content)
	if q.sampling == "" {
		q.sampling = `"temperature":0`
	}
	body := fmt.Sprintf(`{"model":"llama-3","stream":%t,%s,"messages":[{"role":"user","content":%s}]%s}`, q.stream, q.sampling, content, q.more)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return clientResult{message: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range q.header {
		req.Header.Set(name, value)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return clientResult{message: err.Error(), broken: true}
	}
	out := clientResult{code: resp.StatusCode, header: resp.Header}
	raw, err := rest(resp)
	out.broken = err != nil
	if resp.StatusCode != http.StatusOK {
		out.message = raw
		return out
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		out.done = out.take([]byte(raw))
		return out
	}
	for event := range strings.SplitSeq(raw, "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		switch {
		case strings.HasPrefix(event, "event: error"):
			out.broken = true
		case data == "[DONE]":
			out.done = true
		case ok:
			out.take([]byte(data))
		}
	}
	return out
}

func (r *clientResult) take(raw []byte) bool {
	var c struct {
		ID      string
		Choices []struct {
			Delta, Message struct{ Content string }
			Finish         string `json:"finish_reason"`
		}
		Usage    *usageReply
		Foregate map[string]any
	}
	if json.Unmarshal(raw, &c) != nil {
		r.broken = true
		return false
	}
	r.id = c.ID
	for _, ch := range c.Choices {
		r.text += ch.Delta.Content + ch.Message.Content
		if ch.Finish != "" {
			r.finish = ch.Finish
		}
	}
	if c.Usage != nil {
		r.usage = c.Usage
	}
	if c.Foregate != nil {
		r.extra = c.Foregate
	}
	return true
}

// fine checks a whole answer and what the cache had to do with it.
func (r clientResult) fine(t *testing.T, what, text, cached string) {
	t.Helper()
	if r.code != http.StatusOK || r.broken || !r.done || r.finish == "" {
		t.Fatalf("%s: %+v", what, r)
	}
	if r.text != text || r.header.Get("X-Cache") != cached {
		t.Errorf("%s: %q (%s), want %q (%s)", what, r.text, r.header.Get("X-Cache"), text, cached)
	}
}

// trustTenants lets clients name their tenant.
func trustTenants(t *testing.T) func(*Options) {
	t.Helper()
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.Identity = who }
}
