package probe

import (
	"encoding/json"
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
	hazards string // "" or one of the hazards'
	listed  string // the model in /v1/models
	answers string // the model in answers; "" is none
	window  int    // of a request; 0: it takes all
	deaf    bool   // thinks although it is told not to

	mu     sync.Mutex
	asked  map[string]map[string]bool // members by path
	bodies []map[string]any           // of all requests, in order
}

const (
	shortAnswer = "Yes ."
	longAnswer  = "The rain falls on the stones of the square and people walk from stall to stall under wide black umbrellas while bread is sold"
	endID       = 2
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

func (f *wire) start(t *testing.T) string {
	t.Helper()
	f.asked = map[string]map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(s.Close)
	return s.URL
}

// probed probes it, as the model "m".
func (f *wire) probed(t *testing.T) *Capabilities {
	t.Helper()
	if f.listed == "" {
		f.listed = "m"
	}
	e := &probeRun{asker: &asker{transport: transport(t), timeout: 20 * time.Second, url: f.start(t), model: "m", engine: f.kind}}
	if err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &e.found
}

func (f *wire) serve(w http.ResponseWriter, r *http.Request) {
	q := map[string]any{}
	_ = json.NewDecoder(r.Body).Decode(&q)
	f.mu.Lock()
	if f.asked[r.URL.Path] == nil {
		f.asked[r.URL.Path] = map[string]bool{}
	}
	for name := range q {
		f.asked[r.URL.Path][name] = true
	}
	if r.Method == http.MethodPost {
		f.bodies = append(f.bodies, q)
	}
	f.mu.Unlock()
	switch at := string(f.kind) + " " + r.URL.Path; at {
	case "llamacpp /props":
		say(w, map[string]any{"default_generation_settings": map[string]any{"n_ctx": f.window}, "total_slots": 1})
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
		f.common(w, r, q)
	}
}

// common are the routes of OpenAI's API.
func (f *wire) common(w http.ResponseWriter, r *http.Request, q map[string]any) {
	switch r.URL.Path {
	case "/v1/models":
		say(w, map[string]any{"data": []any{map[string]any{"id": f.listed}}})
	case "/v1/chat/completions":
		f.answer(w, q, len(wordIDs(asText(q["messages"])))+2)
	case "/v1/completions":
		ids, _ := q["prompt"].([]any)
		f.answer(w, q, len(ids))
	default:
		http.NotFound(w, r)
	}
}

func asText(messages any) string {
	raw, _ := json.Marshal(messages)
	return strings.NewReplacer(`\n`, " ", `"`, " ").Replace(string(raw))
}

func say(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func (f *wire) answer(w http.ResponseWriter, q map[string]any, prompt int) {
	if f.window > 0 && prompt > f.window {
		w.WriteHeader(http.StatusBadRequest)
		say(w, map[string]any{"error": map[string]any{"message": "exceeds the available context size"}})
		return
	}
	maximum, _ := q["max_tokens"].(float64)
	text, finish := longAnswer, "length"
	if maximum == shortTokens {
		text, finish = shortAnswer, "stop"
	}
	words := strings.Fields(text)
	words = words[:min(len(words), int(maximum))]
	message := map[string]any{"content": strings.Join(words, " ")}
	if f.hazards == HazardThinksFirst && (f.deaf || !quiet(q)) {
		message["reasoning"] = "Let me see."
	}
	choice := map[string]any{"message": message, "text": message["content"], "finish_reason": finish}
	tokens := len(words)
	if finish == "stop" {
		tokens++
	}
	if q["logprobs"] != nil && f.hazards != "no logprobs" {
		choice["logprobs"] = map[string]any{"content": f.entries(words, finish)}
	}
	out := map[string]any{"choices": []any{choice}, "usage": map[string]any{"prompt_tokens": prompt, "completion_tokens": tokens}}
	if f.answers != "" {
		out["model"] = f.answers
	}
	say(w, out)
}

// quiet reports whether thinking is turned off.
func quiet(q map[string]any) bool {
	arguments, _ := q["chat_template_kwargs"].(map[string]any)
	return arguments["enable_thinking"] == false
}

func (f *wire) entries(words []string, finish string) []any {
	var list []any
	for i, word := range words {
		e := map[string]any{"token": word, "bytes": []int{int(word[0])}, "logprob": -0.1 - float64(i)/100, "top_logprobs": []any{
			map[string]any{"token": word, "logprob": -0.1 - float64(i)/100}, map[string]any{"token": "other", "logprob": -3}}}
		if f.hazards == HazardConstantLogprobs && i > 0 {
			e["logprob"], e["top_logprobs"] = 0, []any{}
		}
		if f.kind == dialect.LlamaCpp {
			e["id"] = wordIDs(word)[0]
		}
		list = append(list, e)
	}
	if finish == "stop" && f.kind == dialect.LlamaCpp {
		list = append(list, map[string]any{"id": endID, "token": "", "logprob": -0.2, "top_logprobs": []any{}})
	}
	return list
}

// paths are those that were asked, sorted.
func (f *wire) paths() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(f.asked)), " ")
}

func TestLlamaCppIsAskedInItsOwnWords(t *testing.T) {
	f := &wire{kind: dialect.LlamaCpp, window: 4096}
	c := f.probed(t)
	if got, want := whats(c), "prompt_token_ids reuse scoring"; got != want {
		t.Errorf("missing %q, not %q: %+v", got, want, c.Missing)
	}
	if c.Window != 4096 || !c.TokenIDs || !c.Continues || !slices.Equal(c.EOS, []int32{endID}) || c.Tokenizer == "" || c.Template == "" {
		t.Errorf("got %+v", c)
	}
	if why := c.MissingReason(MissingScoring); !strings.Contains(why, "judge") {
		t.Errorf("scoring: %q", why)
	}
	if got, want := f.paths(), "/apply-template /detokenize /props /tokenize /v1/chat/completions /v1/completions /v1/models"; got != want {
		t.Errorf("asked %q", got)
	}
	if len(c.Hazards) > 0 || c.Thinks {
		t.Errorf("hazards %+v", c.Hazards)
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
	f := &wire{kind: dialect.OpenAI, hazards: HazardThinksFirst, listed: "m", answers: "m-2026-01-31"}
	e := &probeRun{asker: &asker{transport: transport(t), timeout: 20 * time.Second, url: f.start(t), model: "m", engine: f.kind, priority: &late}}
	if err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := f.paths(), "/v1/chat/completions /v1/models"; got != want {
		t.Errorf("asked %q", got)
	}
	onlyOpenAI(t, f.asked["/v1/chat/completions"])
	if c := &e.found; !c.Thinks || c.HazardReason(HazardThinksFirst) == "" || c.MissingReason(MissingLogprobs) == "" || c.HazardReason(HazardSwappedModel) != "" {
		t.Errorf("got %+v", c)
	}
}

// onlyOpenAI fails for a member that OpenAI's API does not have.
func onlyOpenAI(t *testing.T, members map[string]bool) {
	t.Helper()
	for name := range members {
		switch name {
		case "model", "messages", "max_tokens", "temperature", "top_p", "seed", "logprobs", "top_logprobs", "stream", "tools", "tool_choice":
		default:
			t.Errorf("it was told %s", name)
		}
	}
	if !members["max_tokens"] || members["max_completion_tokens"] {
		t.Errorf("told %v", members)
	}
}

func TestEachHazardIsFoundAndItsConsequencesAreDrawn(t *testing.T) {
	for _, k := range []struct {
		what   string
		f      *wire
		hazard string
		part   string // of its reason
		fits   func(*Capabilities) bool
	}{
		{"speculated logprobs", &wire{kind: dialect.LlamaCpp, window: 4096, hazards: HazardConstantLogprobs}, HazardConstantLogprobs, "0 for 15 of 16",
			func(c *Capabilities) bool {
				return c.MissingReason(MissingLogprobs) != "" && c.Unscored && c.TopLogprobs == 0
			}},
		{"another model", &wire{kind: dialect.LlamaCpp, window: 4096, answers: "n"}, HazardSwappedModel, `the model "n" answers`,
			func(c *Capabilities) bool {
				return c.MissingReason(MissingLogprobs) != "" && !c.Continues && c.MissingReason(MissingContinue) != ""
			}},
		{"thinks", &wire{kind: dialect.LlamaCpp, window: 4096, hazards: HazardThinksFirst}, HazardThinksFirst, "enable_thinking: false turns that off",
			func(c *Capabilities) bool { return c.Thinks && c.MissingReason(MissingLogprobs) == "" }},
		{"thinks always", &wire{kind: dialect.LlamaCpp, window: 4096, hazards: HazardThinksFirst, deaf: true}, HazardThinksFirst, "does not turn that off",
			func(c *Capabilities) bool { return c.Thinks && c.MissingReason(MissingLogprobs) != "" }},
	} {
		t.Run(k.what, func(t *testing.T) {
			c := k.f.probed(t)
			if len(c.Hazards) != 1 || c.Hazards[0].Name != k.hazard || !strings.Contains(c.Hazards[0].Reason, k.part) {
				t.Fatalf("hazards %+v", c.Hazards)
			}
			if k.fits != nil && !k.fits(c) {
				t.Errorf("got %+v", c)
			}
		})
	}
}
