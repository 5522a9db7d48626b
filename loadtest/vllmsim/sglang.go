package vllmsim

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// This file is SGLang's server as far as a gateway asks it, but for its POST /generate (native.go). Read in
// sgl-project/sglang (doc.go names the files and commits).

type sglangWire struct{}

// routes implements face.
func (sglangWire) routes(s *Server) map[string]route {
	return map[string]route{
		"/v1/chat/completions": s.generate(apiChat), "/v1/completions": s.generate(apiCompletion), "/generate": s.generate(apiNative),
		"/v1/models": onGet(s.sglangModels), "/health": onGet(s.serveHealth), "/metrics": onGet(s.serveMetrics),
		"/tokenize": onPost(s.serveTokenize), "/detokenize": onPost(s.serveDetokenize), "/get_model_info": onGet(s.sglangModelInfo),
	}
}

// take implements face. The model's name is not looked at, but for an adapter's in it.
func (sglangWire) take(_ *Server, w *wireRequest, in intake) *apiError {
	if w.native != nil {
		return nil
	}
	w.PromptLogprobs, w.IncludeStop, w.AddSpecialTokens, w.StructuredOutputs, w.AddGenerationPrompt = nil, false, nil, nil, nil
	w.StreamOptions = usageOption(w.StreamOptions)
	if in.api != apiChat {
		return nil
	}
	if len(w.Messages) == 0 {
		return refused("Messages cannot be empty.")
	}
	last := &w.Messages[len(w.Messages)-1]
	open := w.ContinueFinalMessage && last.Role == "assistant"
	if last.Role == "assistant" && !open {
		last.Role = "user" // serving_chat.py: the last message is not to be gone on from
	}
	generation := !open
	w.ContinueFinalMessage, w.AddGenerationPrompt = open, &generation
	return nil
}

// fail implements face: errors are flat, and never name a parameter.
func (sglangWire) fail(err *apiError) any {
	kind, message := err.kind, err.message
	if long := err.long; long != nil {
		message = fmt.Sprintf("The input (%d tokens) is longer than the model's context length (%d tokens).", long.prompt, long.limit)
		if long.prompt < long.limit {
			message = fmt.Sprintf("Requested token count exceeds the model's maximum context length of %d tokens. You requested a total of %d tokens: "+
				"%d tokens from the input messages and %d tokens for the completion. Please reduce the number of tokens in the input messages or the "+
				"completion to fit within the limit.", long.limit, long.prompt+long.asked, long.prompt, long.asked)
		}
	}
	return errorBody{Object: "error", Message: message, Type: kind, Code: err.status}
}

// absent implements face.
func (sglangWire) absent(w http.ResponseWriter, _ *http.Request, known bool) {
	frameworkAbsent(w, known)
}

// head implements face: answers repeat the requested model's name.
func (sglangWire) head(c *call, stream bool) *answerBody {
	a := c.headOf(stream)
	if a.Model = c.req.wire.Model; a.Model == "" {
		a.Model = "default"
	}
	return a
}

// finish implements face. matched_stop is vLLM's stop_reason, and the id of an ordinary end, too.
func (sglangWire) finish(c *call, v *choiceBody, end *ending) {
	v.Finish, v.Matched = c.reason(end.finish), null
	switch {
	case end.stop != nil:
		v.Matched = end.stop
	case end.finish == finishStop && len(end.ids) > 0:
		v.Matched = end.ids[len(end.ids)-1]
	}
	if !c.req.returnIDs || c.req.chat && c.req.stream {
		return
	}
	v.TokenIDs = end.ids
	if !c.req.chat && !c.req.stream {
		v.PromptIDs = c.s.wire.outAll(end.prompt)
	}
}

// logprobs implements face.
func (sglangWire) logprobs(end *ending) any { return contentOf(end.lps, (*tokenLogprob).ranking) }

// textLogprobs implements face: no offsets are told.
func (sglangWire) textLogprobs(lps []*tokenLogprob, _ int) any {
	out := newTextLogprobs(lps, 0)
	for i := range out.Offset {
		out.Offset[i] = -1
	}
	return out
}

// whole implements face.
func (s sglangWire) whole(c *call, a *answerBody, t spend) {
	s.usage(c, a, t)
	a.Metadata = map[string]string{"weight_version": "default"}
	for _, v := range a.Choices {
		if m := v.(*choiceBody).Message; m != nil {
			m.Thoughts = null
		}
	}
}

// opened implements face.
func (sglangWire) opened(c *call) []any { return c.roles() }

// chunk implements face.
func (sglangWire) chunk(c *call, ev *chunk) []any { return c.split(ev) }

// usage implements face. It tells of the cache under --enable-cache-report.
func (sglangWire) usage(c *call, a *answerBody, t spend) {
	u := t.body()
	u.Details, u.Reasoning = null, new(int)
	if c.s.opts.PromptTokensDetails && t.cached > 0 {
		u.Details = cachedTokens{t.cached}
	}
	a.Usage = u
}

func (s *Server) sglangModels(w http.ResponseWriter, _ *http.Request) {
	type card struct {
		modelCard
		Root   string  `json:"root"`
		Parent *string `json:"parent"`
		Window int     `json:"max_model_len"`
	}
	name := s.opts.Model
	writeJSON(w, http.StatusOK, models{"list", []any{card{modelCard{name, "model", time.Now().Unix(), engineSGLang}, name, nil, s.opts.MaxModelLen}}})
}

func (s *Server) sglangModelInfo(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"model_path": s.opts.Model, "tokenizer_path": s.opts.Model, "is_generation": true})
}

// page implements face, as Python's client writes it. Gauges are of now; the engine's are of its last report.
func (sglangWire) page(s *Server) ([]byte, error) {
	var b bytes.Buffer
	st := s.State()
	labels := `{dp_rank="0",engine_type="unified",model_name="` + strings.ReplaceAll(s.opts.Model, `"`, `\"`) + `",tp_rank="0"} `
	for _, m := range []struct {
		name, help, kind string
		value            float64
	}{
		{"num_running_reqs", "The number of running requests.", "gauge", float64(st.Running)},
		{"num_queue_reqs", "The number of requests in the waiting queue.", "gauge", float64(st.Waiting)},
		{"token_usage", "The token usage.", "gauge", float64(st.KVBlocksUsed) / float64(st.KVBlocksTotal)},
		{"max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", "gauge", float64(st.KVBlocksTotal * BlockSize)},
		{"prompt_tokens_total", "Number of prefill tokens processed.", "counter", float64(st.PrefixQueries)},
		{"generation_tokens_total", "Number of generation tokens processed.", "counter", float64(st.GeneratedTokens)},
		{"cached_tokens_total", "Number of cached prompt tokens.", "counter", float64(st.PrefixHits)},
		{"num_retracted_requests_total", "Total number of retracted requests.", "counter", float64(st.Preemptions)},
	} {
		b.WriteString("# HELP sglang:" + m.name + " " + m.help + "\n# TYPE sglang:" + m.name + " " + m.kind + "\n")
		b.WriteString("sglang:" + m.name + labels + strconv.FormatFloat(m.value, 'g', -1, 64) + "\n")
	}
	return b.Bytes(), nil
}
