package vllmsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// vllmWire is vLLM's own wire.
type vllmWire struct{}

// routes implements face.
func (vllmWire) routes(s *Server) map[string]route {
	return map[string]route{
		"/v1/chat/completions": s.generate(apiChat),
		"/v1/completions":      s.generate(apiCompletion),
		"/v1/models":           onGet(s.serveModels),
		"/v1/embeddings":       onPost(s.serveEmbeddings),
		"/tokenize":            onPost(s.serveTokenize),
		"/detokenize":          onPost(s.serveDetokenize),
		"/health":              onGet(s.serveHealth),
		"/version":             onGet(s.serveVersion),
		"/metrics":             onGet(s.serveMetrics),
	}
}

// page implements face.
func (vllmWire) page(s *Server) ([]byte, error) { return s.engine.met.expose() }

// take implements face.
func (vllmWire) take(*Server, *wireRequest, intake) *apiError { return nil }

// fail implements face.
func (vllmWire) fail(err *apiError) any {
	return errorIn{errorBody{Message: err.message, Type: err.kind, Param: ptr(err.param), Code: err.status}}
}

// absent implements face.
func (vllmWire) absent(w http.ResponseWriter, _ *http.Request, known bool) { frameworkAbsent(w, known) }

// head implements face.
func (vllmWire) head(c *call, stream bool) *answerBody { return c.headOf(stream) }

// finish implements face.
func (vllmWire) finish(c *call, v *choiceBody, end *ending) {
	v.Finish, v.TokenIDs = c.reason(end.finish), null
	if c.req.returnIDs {
		v.TokenIDs = end.ids
	}
	if end.finish != "" || !c.req.chat {
		v.Stop = null
	}
	if end.stop != nil {
		v.Stop = end.stop
	}
}

// logprobs implements face.
func (vllmWire) logprobs(end *ending) any { return contentOf(end.lps, (*tokenLogprob).ownFirst) }

// textLogprobs implements face.
func (vllmWire) textLogprobs(lps []*tokenLogprob, offset int) any {
	return newTextLogprobs(lps, offset)
}

// whole implements face. What was cached is told of the last sequence alone, as vLLM does; only the chat route tells of
// nothing being cached.
func (vllmWire) whole(c *call, a *answerBody, t spend) {
	a.Fingerprint, a.Tier, a.KV, a.EC, a.Metrics = fingerprint, null, null, null, null
	u := t.body()
	u.Details, u.Spent = null, null
	if c.s.opts.PromptTokensDetails && (t.cached > 0 || c.req.chat) {
		u.Details = cachedTokens{t.cached}
	}
	a.Usage = u
	for i := range a.Choices {
		v, prompt := a.Choices[i].(*choiceBody), c.req.prompts[i/c.req.n]
		v.Experts = null
		if c.req.chat {
			m := v.Message
			m.Refusal, m.Annotations, m.Audio, m.Function, m.Reasoning = null, null, null, null, null
			a.PromptScores, a.PromptIDs, a.PromptText = orNull(c.scores(prompt)), orNull(c.promptIDs(prompt)), null
			continue
		}
		v.PromptScores, v.PromptIDs = orNull(c.scores(prompt)), orNull(c.promptIDs(prompt))
	}
}

// scores is what is thought of a prompt, if it was asked for.
func (c *call) scores(prompt []int32) []map[int32]ranked {
	if c.req.promptLogprobs < 0 {
		return nil
	}
	return c.s.model.promptLogprobs(scoring{prompt: prompt, form: c.req.form, wire: c.s.wire}, c.req.promptLogprobs)
}

// promptIDs are the ids of a prompt, if they were asked for.
func (c *call) promptIDs(prompt []int32) []int32 {
	if !c.req.returnIDs || c.s.missingFeatures.has(featPromptIDs) {
		return nil
	}
	return c.s.wire.outAll(prompt)
}

// opened implements face: with the ids of the prompt.
func (vllmWire) opened(c *call) []any {
	list := c.roles()
	for _, v := range list {
		a := v.(*answerBody)
		a.PromptIDs, a.PromptText = orNull(c.promptIDs(c.req.prompts[0])), null
		if c.req.continuous {
			a.Usage = spend{prompt: c.promptTokens()}.soFar(true)
		}
	}
	return list
}

// chunk implements face. Parts of a tool call that a parser swallows give no chunk.
func (w vllmWire) chunk(c *call, ev *chunk) []any {
	v := &choiceBody{Index: ev.choice}
	w.finish(c, v, &ev.end)
	prompt := c.req.prompts[ev.choice/c.req.n]
	switch {
	case c.req.chat && ev.part == partHidden && ev.finish == "":
		return nil
	case c.req.chat:
		v.Delta, v.Logprobs = &message{ToolCalls: c.callDelta(ev)}, w.logprobs(&ev.end)
		switch said := ev.said(); {
		case v.Delta.ToolCalls != nil:
			v.Delta.Content = null
		case said != "" || ev.finish == "":
			v.Delta.Content = said
		}
	default:
		text := ev.text
		v.Text, v.PromptIDs = &text, null
		if len(ev.end.lps) > 0 {
			v.Logprobs = w.textLogprobs(ev.end.lps, ev.offset)
		}
		if ev.first {
			v.PromptIDs = orNull(c.promptIDs(prompt))
		}
	}
	a := c.chunkWith(v)
	if c.req.continuous {
		a.Usage = spend{prompt: len(prompt), generated: ev.tokens}.soFar(c.req.chat)
	}
	if ev.finish != "" && !c.req.usage {
		a.Fingerprint = fingerprint
	}
	return []any{a}
}

// soFar is what has been used while an answer goes on.
func (s spend) soFar(chat bool) *usageBody {
	u := s.body()
	if chat {
		u.Spent = null
	}
	return u
}

// usage implements face.
func (vllmWire) usage(c *call, a *answerBody, t spend) {
	u := t.body()
	if c.s.opts.PromptTokensDetails && (t.cached > 0 || c.req.chat) {
		u.Details = cachedTokens{t.cached}
	}
	a.Usage, a.Fingerprint = u, fingerprint
}

func (s *Server) serveModels(w http.ResponseWriter, _ *http.Request) {
	type card struct {
		modelCard
		Root       string          `json:"root"`
		Parent     json.RawMessage `json:"parent"`
		Window     int             `json:"max_model_len"`
		Permission json.RawMessage `json:"permission"`
	}
	now := time.Now().Unix()
	writeJSON(w, http.StatusOK, models{"list", []any{card{modelCard: modelCard{s.opts.Model, "model", now, engineVLLM}, Root: s.opts.Model,
		Window: s.opts.MaxModelLen, Permission: fmt.Appendf(nil, permission, now)}}})
}

// permission is what every card of vLLM says, with the time in it.
const permission = `[{"id":"modelperm-1","object":"model_permission","created":%d,"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,` +
	`"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}]`

func (s *Server) serveVersion(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, struct {
		Version string `json:"version"`
	}{serverVersion})
}

// nullOfVLLM is a null that other engines do not write.
func (s *Server) nullOfVLLM() json.RawMessage {
	if s.vllm() {
		return null
	}
	return nil
}

// ptr is a pointer to a text, nil to none.
func ptr(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
