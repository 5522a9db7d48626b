package vllmsim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	maxLogprobs  = 20    // vLLM's --max-logprobs default
	maxSequences = 16384 // VLLM_MAX_N_SEQUENCES, and here of all prompts together
)

// request is a validated generation request.
type request struct {
	chat           bool
	wire           *wireRequest
	id             string
	created        int64
	model          string
	role           string
	prompts        [][]int32
	n              int
	stream         bool
	usage          bool
	continuous     bool
	returnIDs      bool
	promptLogprobs int // none, or how many alternatives
	noCacheRead    bool
	scoreFrom      int     // see Seq
	native         *native // SGLang's /generate
	salt           uint64
	priority       int64
	specs          []genSpec // one per choice, index prompt*n+j
	tool           *toolCall
	named          bool      // by tool_choice; then vLLM says that it stopped
	others         []Cand    // see genSpec
	form           *form     // of the answer
	lazy           *apiError // found by the engine only: under stream it comes as an event after a 200
}

// api is one of the ways to ask for tokens.
type api uint8

const (
	apiCompletion api = iota
	apiChat
	apiNative // SGLang's /generate
)

// prefix is what the ids of its answers begin with.
func (a api) prefix() string { return [...]string{"cmpl-", "chatcmpl-", ""}[a] }

// intake is how a body arrived.
type intake struct {
	api    api
	body   []byte
	header func(string) string
}

// parse validates a body in vLLM's order: schema, model, fields, room in the engine, prompt length.
func (s *Server) parse(body []byte, in intake) (*request, *apiError) {
	w, err := readWire(body, in.api)
	if err != nil {
		return nil, err
	}
	in.body = body
	if err := s.face.take(s, w, in); err != nil {
		return nil, err
	}
	s.missingFeatures.strip(w)
	w.StopTokenIDs = s.wire.inAll(w.StopTokenIDs)
	if err := w.checkSchema(in.api); err != nil {
		return nil, err
	}
	if err := s.checkModel(w.Model); err != nil {
		return nil, err
	}
	r := &request{chat: in.api == apiChat, wire: w, created: time.Now().Unix(), role: "assistant", n: 1, stream: w.Stream,
		returnIDs: w.ReturnTokenIDs, priority: w.Priority, native: w.native}
	r.model = s.opts.Model
	if w.N != nil {
		r.n = *w.N
	}
	if o := w.StreamOptions; o != nil {
		r.usage, r.continuous = o.IncludeUsage, o.Continuous && o.IncludeUsage
	}
	r.id = s.requestID(in.api, in.header("X-Request-Id"))
	if w.CacheSalt != nil {
		r.salt = hashString(1, *w.CacheSalt)
	}
	spec, err := s.spec(w, r)
	if err != nil {
		return nil, err
	}
	if r.chat {
		err = s.chatPrompt(w, r)
	} else {
		err = s.completionPrompts(w, r)
	}
	if err != nil {
		return nil, err
	}
	if r.native != nil {
		if err := r.scoreNatively(); err != nil {
			return nil, err
		}
	}
	return r, s.finishSpecs(w, r, spec)
}

func (s *Server) requestID(a api, id string) string {
	if id == "" {
		id = fmt.Sprintf("%016x%016x", mix(s.ids.Add(1), s.nonce), mix(s.ids.Load(), ^s.nonce))
	}
	return a.prefix() + id
}

// checkSchema holds what vLLM's request models refuse before anything else.
func (w *wireRequest) checkSchema(a api) *apiError {
	if a == apiChat && w.Messages == nil {
		return missing("messages")
	}
	if a == apiCompletion && (isNull(w.Prompt) || string(w.Prompt) == `""`) {
		return invalid("Either prompt or prompt_embeds must be provided and non-empty.", "prompt", "")
	}
	if a == apiCompletion && !isNull(w.Suffix) {
		return &apiError{status: http.StatusBadRequest, kind: kindBadRequest, param: "suffix", message: "suffix is only supported for models with FIM completion rendering"}
	}
	if err := w.checkPrompt(a); err != nil {
		return err
	}
	if o := w.StreamOptions; o != nil && !w.Stream && !o.anywhere {
		return invalid("Stream options can only be defined when `stream=True`.", "stream_options", "")
	}
	if p := w.PromptLogprobs; p != nil {
		if w.Stream && (*p > 0 || *p == -1) {
			return invalid("`prompt_logprobs` are not available when `stream=True`.", "prompt_logprobs", "")
		}
		if *p < -1 {
			return invalid("`prompt_logprobs` must be a positive value or -1.", "prompt_logprobs", strconv.Itoa(*p))
		}
	}
	if a == apiChat {
		if err := w.checkChat(); err != nil {
			return err
		}
	}
	if w.StructuredOutputs != nil {
		return w.StructuredOutputs.check()
	}
	return nil
}

// checkPrompt reads the prompts. A prompt of no known shape is found later.
func (w *wireRequest) checkPrompt(a api) *apiError {
	if a == apiChat {
		return nil
	}
	var err *apiError
	if w.prompts, err = promptList(w.Prompt); err != nil && err.kind == kindSchema {
		return err
	}
	return nil
}

func (w *wireRequest) checkChat() *apiError {
	for i := range w.Messages {
		if w.Messages[i].Role == "" { // an empty one is taken for none
			return missing(fmt.Sprintf("messages.%d.role", i))
		}
	}
	if t := w.TopLogprobs; t != nil && *t != 0 && string(w.Logprobs) != "true" {
		return invalid("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs", "")
	}
	if t := w.TopLogprobs; t != nil && *t < -1 {
		return invalid("`top_logprobs` must be a positive value or -1.", "top_logprobs", strconv.Itoa(*t))
	}
	if !isNull(w.ChatTemplate) {
		return refused("Chat template is passed with request, but --trust-request-chat-template is not set. Refused request with untrusted chat template.")
	}
	if len(w.Messages) == 0 {
		return refused("Cannot apply chat template to an empty conversation. Provide at least one message.")
	}
	if w.Tools != nil && len(w.Tools) == 0 {
		return invalid("`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.", "tools", "")
	}
	if w.Tools == nil && !isNull(w.ToolChoice) && string(w.ToolChoice) != `"none"` && string(w.ToolChoice) != `"auto"` {
		return invalid("When using `tool_choice`, `tools` must be set.", "tool_choice", "")
	}
	if w.ContinueFinalMessage && w.AddGenerationPrompt != nil && *w.AddGenerationPrompt {
		return refused("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
	}
	return nil
}

// spec reads the sampling fields.
func (s *Server) spec(w *wireRequest, r *request) (genSpec, *apiError) {
	g := genSpec{minTokens: w.MinTokens, ignoreEOS: w.IgnoreEOS, stopIDs: w.StopTokenIDs, includeStop: w.IncludeStop,
		sampling: sampling{temperature: 1}}
	g.keepSpecial = w.SkipSpecialTokens != nil && !*w.SkipSpecialTokens
	var err *apiError
	if g.certain, err = certain(w.LogitBias); err != nil {
		return g, err
	}
	if g.stop, err = stopList(w.Stop); err != nil {
		return g, err
	}
	if err := g.readSampling(w); err != nil {
		return g, err
	}
	if r.n < 1 {
		return g, refused(fmt.Sprintf("n must be at least 1, got %d.", r.n))
	}
	if r.n > maxSequences || r.n*max(len(w.prompts), 1) > maxSequences {
		return g, invalid(fmt.Sprintf("n must be at most %d, over all prompts, got %d. To increase this limit, set the VLLM_MAX_N_SEQUENCES environment variable.",
			maxSequences, r.n), "n", strconv.Itoa(r.n))
	}
	if r.n > 1 && g.temperature == 0 {
		return g, refused(fmt.Sprintf("n must be 1 when using greedy sampling, got %d.", r.n))
	}
	if err := w.readLogprobs(&g, r); err != nil {
		return g, err
	}
	return g, nil
}

func (g *genSpec) readSampling(w *wireRequest) *apiError {
	if t := w.Temperature; t != nil {
		if *t < 0 {
			return notIn("temperature", "non-negative", *t)
		}
		if *t > 2 {
			return notIn("temperature", "in [0, 2]", *t)
		}
		g.temperature = *t
	}
	if p := w.TopP; p != nil && (*p <= 0 || *p > 1) {
		return notIn("top_p", "in (0, 1]", *p)
	}
	if err := cmp.Or(notPenalty("presence_penalty", w.Presence), notPenalty("frequency_penalty", w.Frequency)); err != nil {
		return err
	}
	if p := w.Repetition; p != nil && *p <= 0 {
		return refused(fmt.Sprintf("repetition_penalty must be greater than zero, got %s.", pythonFloat(*p)))
	}
	if k := w.TopK; k != nil && *k < -1 {
		return refused(fmt.Sprintf("top_k must be 0 (disable), or at least 1, got %d.", *k))
	}
	if p := w.MinP; p != nil && (*p < 0 || *p > 1) {
		return refused(fmt.Sprintf("min_p must be in [0, 1], got %s.", pythonFloat(*p)))
	}
	return nil
}

// notPenalty refuses a penalty outside of its range; nil is none.
func notPenalty(name string, p *float64) *apiError {
	if p == nil || *p >= -2 && *p <= 2 {
		return nil
	}
	return refused(fmt.Sprintf("%s must be in [-2, 2], got %s.", name, pythonFloat(*p)))
}

// readLogprobs reads the two dialects of logprobs and the prompt's. -1 asks for the whole vocabulary, which is more than
// --max-logprobs allows; too many are found by the engine only.
func (w *wireRequest) readLogprobs(g *genSpec, r *request) *apiError {
	switch {
	case !r.chat && !isNull(w.Logprobs):
		if json.Unmarshal(w.Logprobs, &g.logprobs) != nil {
			return malformed("int_parsing", "body.logprobs", "Input should be a valid integer")
		}
		if g.logprobs < -1 {
			return invalid("`logprobs` must be a positive value or -1.", "logprobs", strconv.Itoa(g.logprobs))
		}
	case r.chat && string(w.Logprobs) == "true":
		g.logprobs = 0
		if w.TopLogprobs != nil {
			g.logprobs = *w.TopLogprobs
		}
	default:
		g.logprobs = none
	}
	r.promptLogprobs = none
	if w.PromptLogprobs != nil {
		r.promptLogprobs = *w.PromptLogprobs
	}
	r.noCacheRead = r.promptLogprobs != none
	r.checkMany("sample", "logprobs", &g.logprobs)
	r.checkMany("prompt", "prompt_logprobs", &r.promptLogprobs)
	return nil
}

// none stands for logprobs that were not asked for.
const none = -1 << 31

// checkMany notes a refusal when more logprobs are wanted than the server gives.
func (r *request) checkMany(what, param string, n *int) {
	if *n == -1 {
		*n = DefaultTokenizer().Size()
	}
	if *n > maxLogprobs {
		r.lazy = invalid(fmt.Sprintf("Requested %s logprobs of %d, which is greater than max allowed: %d", what, *n, maxLogprobs), param, strconv.Itoa(*n))
	}
}

// finishSpecs checks lengths and makes one spec per choice.
func (s *Server) finishSpecs(w *wireRequest, r *request, base genSpec) *apiError {
	asked, err := w.maxTokens(r)
	if err != nil {
		return err
	}
	if r.lazy != nil {
		return nil
	}
	script, err := s.script(w, r)
	if err != nil {
		return err
	}
	for _, prompt := range r.prompts {
		if err := s.checkRequest(r, len(prompt), max(asked, 0)); err != nil {
			return err
		}
		base.maxTokens = s.opts.MaxModelLen - len(prompt)
		if asked >= 0 {
			base.maxTokens = min(base.maxTokens, max(asked, 1))
		}
		for j := range r.n {
			g := base
			g.seed, g.script = s.model.SampleSeed(s.opts.Model, prompt, j), script
			g.others = r.others
			if w.Seed != nil {
				g.seed = mix(mix(0x5eed, uint64(*w.Seed)), uint64(j))
			}
			r.specs = append(r.specs, g)
		}
	}
	return nil
}

// idPrompt reports whether the prompt came as token ids: its length is then known exactly.
func (w *wireRequest) idPrompt() bool { return !strings.Contains(string(w.Prompt), `"`) }

// maxTokens returns the asked limit, -1 when there is none.
func (w *wireRequest) maxTokens(r *request) (int, *apiError) {
	limit := w.MaxTokens
	if r.chat && w.MaxCompletionTokens != nil {
		limit = w.MaxCompletionTokens
	}
	asked := -1
	if !r.chat {
		asked = 16
	}
	if limit != nil {
		asked = *limit
		if asked < 1 {
			return 0, invalid(fmt.Sprintf("max_tokens must be at least 1, got %d.", asked), "max_tokens", strconv.Itoa(asked))
		}
		if w.MinTokens > asked {
			return 0, refused(fmt.Sprintf("min_tokens must be less than or equal to max_tokens=%d, got %d.", asked, w.MinTokens))
		}
	}
	return asked, nil
}
