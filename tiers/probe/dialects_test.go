package probe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/dialect"
)

// asked is a request that a fake engine got.
type asked struct {
	path string
	body map[string]any
}

// fake is an engine of a test. Its tokens are bytes, and its only answer is "ok".
type fake struct {
	t      *testing.T
	kind   dialect.Kind
	mu     sync.Mutex
	seen   []asked
	server *httptest.Server
}

// fakeEngine starts an engine of a kind that speaks of the wire what a probe asks.
func fakeEngine(t *testing.T, kind dialect.Kind) *fake {
	t.Helper()
	f := &fake{t: t, kind: kind}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

func (f *fake) requests() []asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

// ServeHTTP answers; a path that it has not is 404.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body) // a GET has none
	f.mu.Lock()
	f.seen = append(f.seen, asked{r.URL.Path, body})
	f.mu.Unlock()
	switch r.URL.Path {
	case "/v1/models":
		name := map[dialect.Kind]string{dialect.Ollama: "sim:latest", dialect.LlamaCpp: "/models/sim.gguf"}[f.kind]
		if name == "" {
			name = "sim"
		}
		f.say(w, `{"data":[{"id":%q,"meta":{"n_ctx_train":9000}}]}`, name)
		return
	case "/v1/chat/completions":
		f.complete(w, body)
		return
	}
	switch {
	case f.kind == dialect.Ollama && r.URL.Path == "/api/ps":
		f.say(w, `{"models":[{"name":"sim:latest","model":"sim:latest","context_length":4096}]}`)
	case f.kind != dialect.LlamaCpp:
		http.NotFound(w, r)
	case r.URL.Path == "/v1/completions":
		f.complete(w, body)
	case r.URL.Path == "/props":
		f.say(w, `{"default_generation_settings":{"n_ctx":2048},"total_slots":4}`)
	case r.URL.Path == "/apply-template":
		text, _ := json.Marshal(body["messages"])
		f.say(w, `{"prompt":%q}`, text)
	case r.URL.Path == "/tokenize":
		text, _ := body["content"].(string)
		ids, _ := json.Marshal(append([]int{1}, bytesOf(text)...))
		f.say(w, `{"tokens":%s}`, ids)
	case r.URL.Path == "/detokenize":
		f.say(w, `{"content":"x"}`)
	default:
		http.NotFound(w, r)
	}
}

func bytesOf(text string) (ids []int) {
	for i := range len(text) {
		ids = append(ids, int(text[i]))
	}
	return ids
}

func (f *fake) say(w http.ResponseWriter, format string, args ...any) {
	if _, err := fmt.Fprintf(w, format, args...); err != nil {
		f.t.Log(err) // the probe has gone
	}
}

// complete answers "ok" and the id 7, which ends it.
func (f *fake) complete(w http.ResponseWriter, body map[string]any) {
	id := func(n int) string {
		if f.kind == dialect.LlamaCpp {
			return fmt.Sprintf(`"id":%d,`, n)
		}
		return ""
	}
	entry := func(token string, n int) string {
		return fmt.Sprintf(`{%s"token":%q,"bytes":[1],"logprob":-0.1,"top_logprobs":[{%s"token":%q,"bytes":[1],"logprob":-0.1},{%s"token":"no","bytes":[2],"logprob":-3}]}`,
			id(n), token, id(n), token, id(9))
	}
	list, count, finish := []string{entry("ok", 5), entry("", 7)}, 2, "stop"
	if body["max_tokens"] == 1.0 {
		list, count, finish = list[:1], 1, "length"
	}
	logprobs := "null"
	if wanted := body["logprobs"]; wanted != nil && wanted != false {
		logprobs = `{"content":[` + strings.Join(list, ",") + `]}`
	}
	f.say(w, `{"model":"sim","choices":[{"message":{"role":"assistant","content":"ok"},"text":"ok","finish_reason":%q,"logprobs":%s}],"usage":{"prompt_tokens":9,"completion_tokens":%d}}`,
		finish, logprobs, count)
}

// probedAs probes an engine as one of a kind.
func probedAs(t *testing.T, kind dialect.Kind, url string, priority *int64) *Capabilities {
	t.Helper()
	e := &probeRun{asker: &asker{transport: transport(t), timeout: 20 * time.Second, url: url, model: "sim", engine: kind, priority: priority}}
	if err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &e.found
}

func TestOnlyOpenAIsOwnIsAskedOfAnEngineOfWhichNothingElseIsKnown(t *testing.T) {
	f, late := fakeEngine(t, dialect.OpenAI), int64(10)
	c := probedAs(t, dialect.OpenAI, f.server.URL, &late)
	own := []string{"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "logprobs", "top_logprobs", "seed", "tools", "tool_choice"}
	for _, r := range f.requests() {
		if !slices.Contains([]string{"/v1/models", "/v1/chat/completions"}, r.path) {
			t.Errorf("asked %s", r.path)
		}
		for name := range r.body {
			if !slices.Contains(own, name) {
				t.Errorf("%s with %s", r.path, name)
			}
		}
	}
	for _, what := range []string{MissingTokenize, MissingWords, MissingTokenizer, MissingTemplate, MissingIDs, MissingContinue, MissingScoring} {
		if c.MissingReason(what) == "" {
			t.Errorf("%s is not missing", what)
		}
	}
	if c.MissingReason(MissingLogprobs) != "" || !strings.Contains(c.MissingReason(MissingScoring), "judge") {
		t.Errorf("got %+v", c.Missing)
	}
}

func TestLlamaCppTellsIDsInItsLogprobsAndItsWindowInItsProperties(t *testing.T) {
	f, late := fakeEngine(t, dialect.LlamaCpp), int64(10)
	c := probedAs(t, dialect.LlamaCpp, f.server.URL, &late)
	if !c.TokenIDs || !slices.Equal(c.EOS, []int32{7}) || !c.Continues || c.Window != 2048 {
		t.Errorf("got %+v", c)
	}
	if len(c.Tokenizer) != 64 || len(c.Template) != 64 || c.Scoring != "" {
		t.Errorf("fingerprints %q, %q, scoring %q", c.Tokenizer, c.Template, c.Scoring)
	}
	for _, what := range []string{MissingTokenize, MissingWords, MissingLogprobs, MissingWindow, MissingEOS} {
		if why := c.MissingReason(what); why != "" {
			t.Errorf("%s is missing: %s", what, why)
		}
	}
	for _, r := range f.requests() {
		for _, name := range []string{"return_token_ids", "priority", "top_k", "min_p", "repetition_penalty"} {
			if r.body[name] != nil {
				t.Errorf("%s with %s", r.path, name)
			}
		}
	}
}

// A laptop may generate five tokens a second, and a question has 30 s.
func TestAnEngineThatCannotScoreIsAskedForNoLongAnswer(t *testing.T) {
	for _, kind := range []dialect.Kind{dialect.LlamaCpp, dialect.Ollama, dialect.OpenAI} {
		f := fakeEngine(t, kind)
		probedAs(t, kind, f.server.URL, nil)
		for _, r := range f.requests() {
			if n, _ := r.body["max_tokens"].(float64); n > shortTokens && r.body["stream"] != true {
				t.Errorf("%s: %s for %v tokens", kind, r.path, n)
			}
		}
	}
}

func TestOllamaTellsTheWindowOfALoadedModelUnderItsFullName(t *testing.T) {
	f := fakeEngine(t, dialect.Ollama)
	if c := probedAs(t, dialect.Ollama, f.server.URL, nil); c.Window != 4096 || c.MissingReason(MissingWindow) != "" {
		t.Errorf("window %d: %s", c.Window, c.MissingReason(MissingWindow))
	}
}

// Its prompts' ids come with answers in one piece, as /tokenize does not take chats.
func TestSGLangLacksNothingMoreWhenItsKindIsKnown(t *testing.T) {
	s := engine(t, vllmsim.Options{Seed: 3, SGLang: true})
	was, is := probedAs(t, "", s.URL(), nil), probedAs(t, dialect.SGLang, s.URL(), nil)
	if is.Template == "" || is.Template != was.Template || is.Tokenizer != was.Tokenizer || is.Scoring != was.Scoring || is.SelfAgreement != was.SelfAgreement {
		t.Errorf("was %+v, is %+v", was, is)
	}
}

func TestALatePriorityIsLowWhereAHighOneIsEarlier(t *testing.T) {
	late := int64(10)
	for kind, want := range map[dialect.Kind]any{dialect.VLLM: 10.0, dialect.SGLang: -10.0, dialect.LlamaCpp: nil, dialect.OpenAI: nil} {
		f := fakeEngine(t, kind)
		probedAs(t, kind, f.server.URL, &late)
		for _, r := range f.requests() {
			if r.body != nil && r.body["priority"] != want {
				t.Errorf("%s: %s with priority %v, want %v", kind, r.path, r.body["priority"], want)
			}
		}
	}
}

func FuzzWindows(f *testing.F) {
	f.Add([]byte(`{"default_generation_settings":{"n_ctx":2048}}`))
	f.Add([]byte(`{"models":[{"name":"sim:latest","context_length":4096}]}`))
	f.Add([]byte(`{"prompt":"x","content":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := parseProps(body)
		readable(t, err)
		if (n > 0) != (err == nil) || n < 0 {
			t.Errorf("%q: %d, %v", body, n, err)
		}
	})
}
