package probe

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/dialect"
)

// wire is an engine that speaks as little as a test needs: each word is a token, each answer is one of two.
type wire struct {
	kind    dialect.Kind
	fault   string // "", thinks, constant or "no logprobs"
	listed  string // the model in /v1/models
	answers string // the model in answers; "" is none
	window  int    // of a request; 0: it takes all
	deaf    bool   // thinks although it is told not to

	mu     sync.Mutex
	asked  map[string]map[string]bool // members by path
	bodies []map[string]any           // of all requests, in order
}

const (
	longAnswer = "The rain falls on the stones of the square and people walk from stall to stall under wide black umbrellas while bread is sold"
)

// wordIDs tokenizes.
func wordIDs(text string) []int32 {
	ids := []int32{}
	for _, w := range strings.Fields(text) {
		id := int32(10)
		for _, c := range []byte(w) {
			id = (id*31 + int32(c)) % 50000
		}
		ids = append(ids, 10+id)
	}
	return ids
}

func (wr *wire) start(t *testing.T) string {
	t.Helper()
	wr.asked = map[string]map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(wr.serve))
	t.Cleanup(s.Close)
	return s.URL
}

// probed probes it, as the model "m".
func (wr *wire) probed(t *testing.T) *Capabilities {
	t.Helper()
	if wr.listed == "" {
		wr.listed = "m"
	}
	return allAsked(t, &asker{upstream: up(t), timeout: 20 * time.Second, url: wr.start(t), model: "m", engine: wr.kind}).capabilities()
}

func (wr *wire) serve(w http.ResponseWriter, r *http.Request) {
	q := map[string]any{}
	_ = json.NewDecoder(r.Body).Decode(&q)
	wr.mu.Lock()
	if wr.asked[r.URL.Path] == nil {
		wr.asked[r.URL.Path] = map[string]bool{}
	}
	for name := range q {
		wr.asked[r.URL.Path][name] = true
	}
	if r.Method == http.MethodPost {
		wr.bodies = append(wr.bodies, q)
	}
	wr.mu.Unlock()
	switch at := string(wr.kind) + " " + r.URL.Path; at {
	case "llamacpp /props":
		say(w, map[string]any{"default_generation_settings": map[string]any{"n_ctx": wr.window}, "total_slots": 1})
	case "llamacpp /tokenize":
		ids := []int32{}
		if text, told := q["content"].(string); told {
			ids = append([]int32{1}, wordIDs(text)...)
		}
		say(w, map[string]any{"tokens": ids})
	case "llamacpp /detokenize":
		say(w, map[string]any{"content": "text"})
	case "llamacpp /apply-template":
		say(w, map[string]any{"prompt": "<user> " + asText(q["messages"]) + " <assistant>"})
	default:
		wr.common(w, r, q)
	}
}

// common are the routes of OpenAI's API.
func (wr *wire) common(w http.ResponseWriter, r *http.Request, q map[string]any) {
	switch r.URL.Path {
	case "/v1/models":
		say(w, map[string]any{"data": []any{map[string]any{"id": wr.listed}}})
	case "/v1/chat/completions":
		wr.answer(w, q, len(wordIDs(asText(q["messages"])))+2)
	case "/v1/completions":
		ids, _ := q["prompt"].([]any)
		wr.answer(w, q, len(ids))
	default:
		http.NotFound(w, r)
	}
}

func asText(messages any) string {
	raw, _ := json.Marshal(messages)
	return strings.NewReplacer(`\n`, " ", `"`, " ").Replace(string(raw))
}

func say(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func (wr *wire) answer(w http.ResponseWriter, q map[string]any, prompt int) {
	if wr.window > 0 && prompt > wr.window {
		w.WriteHeader(http.StatusBadRequest)
		say(w, map[string]any{"error": map[string]any{"message": "exceeds the available context size"}})
		return
	}
	maximum, _ := q["max_tokens"].(float64)
	words := strings.Fields(longAnswer)
	words = words[:min(len(words), int(maximum))]
	said := map[string]any{"content": strings.Join(words, " ")}
	if wr.fault == "thinks" && (wr.deaf || !quiet(q)) {
		said["reasoning"] = "Let me see."
	}
	choice := map[string]any{"index": 0, "delta": said, "finish_reason": "length"}
	if q["messages"] == nil {
		delete(choice, "delta")
		choice["text"] = said["content"]
	}
	if q["logprobs"] != nil && wr.fault != "no logprobs" {
		choice["logprobs"] = map[string]any{"content": wr.entries(words)}
	}
	out := map[string]any{"choices": []any{choice}, "usage": map[string]any{"prompt_tokens": prompt, "completion_tokens": len(words)}}
	if wr.answers != "" {
		out["model"] = wr.answers
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: ")
	say(w, out)
	_, _ = io.WriteString(w, "\ndata: [DONE]\n\n")
}

// quiet reports whether thinking is turned off.
func quiet(q map[string]any) bool {
	arguments, _ := q["chat_template_kwargs"].(map[string]any)
	return arguments["enable_thinking"] == false
}

func (wr *wire) entries(words []string) []any {
	var list []any
	for i, word := range words {
		e := map[string]any{"token": word, "bytes": []int{int(word[0])}, "logprob": -0.1 - float64(i)/100, "top_logprobs": []any{
			map[string]any{"token": word, "logprob": -0.1 - float64(i)/100}, map[string]any{"token": "other", "logprob": -3}}}
		if wr.fault == "constant" && i > 0 {
			e["logprob"], e["top_logprobs"] = 0, []any{}
		}
		if wr.kind == dialect.LlamaCpp {
			e["id"] = wordIDs(word)[0]
		}
		list = append(list, e)
	}
	return list
}

// paths are those that were asked, sorted.
func (wr *wire) paths() string {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(wr.asked)), " ")
}

func TestLlamaCppIsAskedInItsOwnWords(t *testing.T) {
	f := &wire{kind: dialect.LlamaCpp, window: 4096}
	c := f.probed(t)
	if got, want := whats(c), "eos prompt_token_ids scoring"; got != want {
		t.Errorf("missing %q, not %q: %+v", got, want, c.Missing)
	}
	if c.Window != 4096 || !c.TokenIDs || len(c.EOS) > 0 || c.Tokenizer == "" || c.Template == "" {
		t.Errorf("got %+v", c)
	}
	if why := c.MissingReason(MissingScoring); !strings.Contains(why, "judge") {
		t.Errorf("scoring: %q", why)
	}
	if got, want := f.paths(), "/apply-template /detokenize /props /tokenize /v1/chat/completions /v1/completions /v1/models"; got != want {
		t.Errorf("asked %q", got)
	}
	if c.Thinks {
		t.Error("it thinks")
	}
	for path, members := range f.asked {
		for _, name := range []string{"return_token_ids", "priority", "top_k", "min_p", "repetition_penalty", "prompt_logprobs"} {
			if members[name] {
				t.Errorf("%s was told %s", path, name)
			}
		}
	}
}

func TestAnEngineOfOpenAIsAPIAloneIsAskedNothingElse(t *testing.T) {
	late := int64(5)
	f := &wire{kind: dialect.OpenAI, fault: "thinks", listed: "m", answers: "m-2026-01-31"}
	c := allAsked(t, &asker{upstream: up(t), timeout: 20 * time.Second, url: f.start(t), model: "m", engine: f.kind, priority: &late}).capabilities()
	if got, want := f.paths(), "/v1/chat/completions /v1/models"; got != want {
		t.Errorf("asked %q", got)
	}
	onlyOpenAI(t, f.asked["/v1/chat/completions"])
	if !c.Thinks || !strings.Contains(c.MissingReason(MissingJudge), "no way is known") {
		t.Errorf("got %+v", c)
	}
}

// onlyOpenAI fails for a member that OpenAI's API does not have.
func onlyOpenAI(t *testing.T, members map[string]bool) {
	t.Helper()
	for name := range members {
		switch name {
		case "model", "messages", "max_tokens", "temperature", "top_p", "seed", "logprobs", "top_logprobs", "stream", "stream_options", "tools", "tool_choice":
		default:
			t.Errorf("it was told %s", name)
		}
	}
	if !members["max_tokens"] || members["max_completion_tokens"] {
		t.Errorf("told %v", members)
	}
}

func TestWhatGoesWrongThoughItAnswersIsFound(t *testing.T) {
	for _, k := range []struct {
		what    string
		f       *wire
		missing string // besides those that llama.cpp never has
		part    string // of the reason why logprobs are missing
		thinks  bool
	}{
		{"speculated logprobs", &wire{fault: "constant"}, MissingLogprobs, "0 for 15 of 16", false},
		{"thinks", &wire{fault: "thinks"}, "", "", true},
		{"thinks always", &wire{fault: "thinks", deaf: true}, MissingJudge, "does not turn that off", true},
		{"no logprobs", &wire{fault: "no logprobs"}, "", "without logprobs", false},
	} {
		k.f.kind, k.f.window = dialect.LlamaCpp, 4096
		c := k.f.probed(t)
		if why := cmp.Or(c.MissingReason(MissingLogprobs), c.MissingReason(MissingJudge)); (k.part == "") != (why == "") || !strings.Contains(why, k.part) {
			t.Errorf("%s: no logprobs for %q", k.what, why)
		}
		if want := strings.Join(slices.Sorted(slices.Values(strings.Fields(k.missing+" eos prompt_token_ids scoring"))), " "); k.missing != "" && whats(c) != want {
			t.Errorf("%s: missing %q, not %q", k.what, whats(c), want)
		}
		if c.Thinks != k.thinks {
			t.Errorf("%s: thinks %v", k.what, c.Thinks)
		}
	}
}
