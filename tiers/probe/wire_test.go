package probe

import (
	"encoding/json"
	"fmt"
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
	hazards string // "" or one of the hazards'
	listed  string // the model in /v1/models
	answers string // the model in answers; "" is none
	window  int    // of a request; 0: it takes all
	trained int
	cut     bool   // silently at the window, otherwise it refuses
	deaf    bool   // thinks although it is told not to
	without string // a path that there is not

	mu     sync.Mutex
	asked  map[string]map[string]bool // members by path
	bodies []map[string]any           // of all requests, in order
	on     int                        // answers that go on
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
	if r.URL.Path == f.without {
		http.NotFound(w, r)
		return
	}
	switch at := string(f.kind) + " " + r.URL.Path; at {
	case "llamacpp /props":
		say(w, map[string]any{"default_generation_settings": map[string]any{"n_ctx": f.window}, "total_slots": 1})
	case "llamacpp /slots":
		f.mu.Lock()
		say(w, []any{map[string]any{"id": 0, "is_processing": f.on > 0}})
		f.mu.Unlock()
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
	case "ollama /api/ps":
		models := []any{}
		if f.hazards != HazardSwappedModel {
			models = append(models, map[string]any{"name": f.listed, "model": f.listed, "context_length": f.window})
		}
		say(w, map[string]any{"models": models})
	case "ollama /api/show":
		say(w, map[string]any{"model_info": map[string]any{"qwen2.context_length": f.trained, "general.architecture": "qwen2"}})
	default:
		f.common(w, r, q)
	}
}

// common are the routes of OpenAI's API.
func (f *wire) common(w http.ResponseWriter, r *http.Request, q map[string]any) {
	switch r.URL.Path {
	case "/v1/models":
		say(w, map[string]any{"data": []any{map[string]any{"id": f.listed, "meta": map[string]any{"n_ctx_train": f.trained}}}})
	case "/v1/chat/completions":
		f.answer(w, r, q, len(wordIDs(asText(q["messages"])))+2)
	case "/v1/completions":
		ids, _ := q["prompt"].([]any)
		f.answer(w, r, q, len(ids))
	default:
		http.NotFound(w, r)
	}
}

func asText(messages any) string {
	raw, _ := json.Marshal(messages)
	return strings.NewReplacer(`\n`, " ", `"`, " ").Replace(string(raw))
}

func say(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func (f *wire) answer(w http.ResponseWriter, r *http.Request, q map[string]any, prompt int) {
	if f.window > 0 && prompt > f.window {
		if !f.cut {
			w.WriteHeader(http.StatusBadRequest)
			say(w, map[string]any{"error": map[string]any{"message": "exceeds the available context size"}})
			return
		}
		prompt = f.window / 2
	}
	if q["stream"] == true {
		f.stream(w, r)
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

// quiet reports whether thinking is turned off in one of the two ways.
func quiet(q map[string]any) bool {
	arguments, _ := q["chat_template_kwargs"].(map[string]any)
	return arguments["enable_thinking"] == false || q["reasoning_effort"] == "none"
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

// stream writes a chunk, and goes on until the client is gone, or for ever where that is the hazard.
func (f *wire) stream(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "data: {}\n\n")
	_ = http.NewResponseController(w).Flush()
	f.mu.Lock()
	f.on++
	f.mu.Unlock()
	<-r.Context().Done()
	if f.hazards == HazardGeneratesOn {
		return // on stays
	}
	f.mu.Lock()
	f.on--
	f.mu.Unlock()
}

// paths are those that were asked, sorted.
func (f *wire) paths() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(f.asked)), " ")
}

func TestLlamaCppIsAskedInItsOwnWords(t *testing.T) {
	f := &wire{kind: dialect.LlamaCpp, window: 4096, trained: 4096}
	c := f.probed(t)
	if got, want := whats(c), "prompt_token_ids reuse scoring self_agreement"; got != want {
		t.Errorf("missing %q, not %q: %+v", got, want, c.Missing)
	}
	if c.Window != 4096 || !c.TokenIDs || !c.Continues || !slices.Equal(c.EOS, []int32{endID}) || c.Tokenizer == "" || c.Template == "" || !c.RawLogprobs {
		t.Errorf("got %+v", c)
	}
	if why := c.MissingReason(MissingScoring); !strings.Contains(why, "judge") {
		t.Errorf("scoring: %q", why)
	}
	if got, want := f.paths(), "/apply-template /detokenize /props /slots /tokenize /v1/chat/completions /v1/completions /v1/models"; got != want {
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

func TestOllamaIsToldNothingThatItDoesNotKnow(t *testing.T) {
	f := &wire{kind: dialect.Ollama, window: 4096, trained: 4096, listed: "m:latest", answers: "m"}
	c := f.probed(t)
	if c.Window != 4096 || len(c.Hazards) > 0 || !c.RawLogprobs || c.TopLogprobs == 0 {
		t.Errorf("got %+v", c)
	}
	if got, want := whats(c), "continuation detokenize eos prompt_token_ids reuse scoring self_agreement template token_ids tokenize tokenizer"; got != want {
		t.Errorf("missing %q", got)
	}
	if got, want := f.paths(), "/api/ps /api/show /v1/chat/completions /v1/models"; got != want {
		t.Errorf("asked %q", got)
	}
	onlyOpenAI(t, f.asked["/v1/chat/completions"])
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
		case "model", "messages", "max_tokens", "temperature", "top_p", "seed", "logprobs", "top_logprobs", "stream", "tools", "tool_choice", "reasoning_effort":
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
				return c.MissingReason(MissingLogprobs) != "" && c.Unscored && !c.RawLogprobs && c.TopLogprobs == 0
			}},
		{"another model", &wire{kind: dialect.LlamaCpp, window: 4096, answers: "n"}, HazardSwappedModel, `the model "n" answers`,
			func(c *Capabilities) bool {
				return c.MissingReason(MissingLogprobs) != "" && !c.Continues && c.MissingReason(MissingContinue) != ""
			}},
		{"out of memory", &wire{kind: dialect.Ollama, window: 4096, hazards: HazardSwappedModel}, HazardSwappedModel, "right after it answered",
			func(c *Capabilities) bool {
				return c.MissingReason(MissingWindow) != "" && c.MissingReason(MissingLogprobs) == ""
			}},
		{"cut", &wire{kind: dialect.Ollama, hazards: "", window: 500, cut: true}, HazardShortContext, "", nil},
		{"cut at an unknown length", &wire{kind: dialect.OpenAI, window: 1024, cut: true}, HazardShortContext, "without a word",
			func(c *Capabilities) bool {
				return c.Window > 0 && c.Window <= 1024 && c.MissingReason(MissingWindow) == ""
			}},
		{"less than the model was made for", &wire{kind: dialect.Ollama, window: 4096, trained: 131072}, HazardShortContext, "4096 tokens, though the model was made for 131072",
			func(c *Capabilities) bool { return c.Window == 4096 }},
		{"thinks", &wire{kind: dialect.LlamaCpp, window: 4096, hazards: HazardThinksFirst}, HazardThinksFirst, "enable_thinking: false turns that off",
			func(c *Capabilities) bool { return c.Thinks && c.MissingReason(MissingLogprobs) == "" }},
		{"thinks, by Ollama", &wire{kind: dialect.Ollama, window: 4096, hazards: HazardThinksFirst}, HazardThinksFirst, `reasoning_effort: "none" turns that off`,
			func(c *Capabilities) bool { return c.Thinks && c.MissingReason(MissingLogprobs) == "" }},
		{"thinks always", &wire{kind: dialect.Ollama, window: 4096, hazards: HazardThinksFirst, deaf: true}, HazardThinksFirst, "does not turn that off",
			func(c *Capabilities) bool { return c.Thinks && c.MissingReason(MissingLogprobs) != "" }},
		{"goes on", &wire{kind: dialect.LlamaCpp, window: 4096, hazards: HazardGeneratesOn}, HazardGeneratesOn, "still generating", nil},
	} {
		t.Run(k.what, func(t *testing.T) {
			t.Parallel() // one waits until it is too late
			c := k.f.probed(t)
			if k.what == "cut" { // it fits, because the engine tells its length
				if c.HazardReason(HazardShortContext) != "" || c.Window != 500 {
					t.Errorf("%+v", c.Hazards)
				}
				return
			}
			if len(c.Hazards) != 1 || c.Hazards[0].Name != k.hazard || !strings.Contains(c.Hazards[0].Reason, k.part) {
				t.Fatalf("hazards %+v", c.Hazards)
			}
			if k.fits != nil && !k.fits(c) {
				t.Errorf("got %+v", c)
			}
			at := slices.IndexFunc(c.Evidence, func(v Evidence) bool { return v.Capability == k.hazard })
			if at < 0 || c.Evidence[at].Request == "" || c.Evidence[at].Answer == "" {
				t.Errorf("evidence %+v", c.Evidence)
			}
		})
	}
}

func TestAnEngineThatRefusesWhatItPromisesIsFound(t *testing.T) {
	e := &probeRun{asker: &asker{}, missing: map[string]string{}, hazards: map[string]string{}, found: Capabilities{Window: 4096}}
	e.measured(growth{lines: 54, half: 460}, &refusal{status: http.StatusBadRequest, message: "too long"})
	if why := e.hazards[HazardShortContext]; !strings.Contains(why, "though it promises 4096") || e.found.Window != 460 {
		t.Errorf("%q, window %d", why, e.found.Window)
	}
	e = &probeRun{asker: &asker{}, missing: map[string]string{}, hazards: map[string]string{}, found: Capabilities{Window: 4096}}
	e.measured(growth{lines: 54, half: 460}, &refusal{status: http.StatusBadRequest, message: "no such lines"})
	if len(e.hazards) != 0 || e.found.Window != 4096 {
		t.Errorf("one that refuses for another reason: %v, window %d", e.hazards, e.found.Window)
	}
	e = &probeRun{asker: &asker{}, missing: map[string]string{MissingWindow: "x"}, hazards: map[string]string{}}
	e.measured(growth{lines: 54, half: 460}, &refusal{status: http.StatusRequestEntityTooLarge})
	if len(e.hazards) != 0 || e.found.Window != 460 || len(e.missing) != 0 {
		t.Errorf("one that promised nothing: %v, window %d", e.hazards, e.found.Window)
	}
}

func TestEvidenceIsBoundedAndThereForAll(t *testing.T) {
	for _, f := range []*wire{{kind: dialect.LlamaCpp, window: 4096}, {kind: dialect.Ollama, window: 4096}, {kind: dialect.OpenAI}, {kind: dialect.OpenAI, hazards: "no logprobs"}} {
		c := f.probed(t)
		got := map[string]Evidence{}
		for _, v := range c.Evidence {
			got[v.Capability] = v
			if len(v.Request) > maxEvidenceRequest || len(v.Answer) > maxEvidenceAnswer || v.Answer == "" {
				t.Errorf("%s: %+v", f.kind, v)
			}
		}
		for _, name := range slices.Concat(CapabilityNames, HazardNames) {
			if _, there := got[name]; !there {
				t.Errorf("%s: nothing shows %s", f.kind, name)
			}
		}
		if len(c.Evidence) != len(CapabilityNames)+len(HazardNames) {
			t.Errorf("%s: %d pieces", f.kind, len(c.Evidence))
		}
	}
	if got, want := requestLine("/v1/completions", map[string]any{"prompt": make([]int32, 640), "model": "m", "max_tokens": 1}), `POST /v1/completions {"max_tokens":1,"prompt":[640 ids]}`; got != want {
		t.Errorf("%s", got)
	}
	if got := requestLine("/x", map[string]any{"prompt": strings.Repeat("é", 999), "a": fmt.Sprint(make([]int, 99))}); len(got) > maxEvidenceRequest {
		t.Errorf("%d bytes", len(got))
	}
}
