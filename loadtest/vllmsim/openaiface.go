package vllmsim

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// This file is a server of which nothing is known but that it speaks OpenAI's API, as the hosted one does (OpenAI's published
// API specification, version 2.3.0): members that it does not know are refused, and there is no route beside it.

type openaiWire struct{}

// routes implements face.
func (openaiWire) routes(s *Server) map[string]route {
	return map[string]route{
		"/v1/models": onGet(s.openaiModels), "/v1/chat/completions": s.generate(apiChat), "/v1/completions": s.generate(apiCompletion),
		"/v1/embeddings": onPost(s.serveEmbeddings),
	}
}

// page implements face: there is none.
func (openaiWire) page(*Server) ([]byte, error) { return nil, nil }

// The members that requests may have.
var (
	openaiShared = []string{"model", "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "n", "presence_penalty", "seed", "stop",
		"stream", "stream_options", "temperature", "top_p", "user"}
	openaiChat = []string{"messages", "audio", "function_call", "functions", "max_completion_tokens", "metadata", "modalities",
		"parallel_tool_calls", "prediction", "prompt_cache_key", "reasoning_effort", "response_format", "safety_identifier", "service_tier", "store",
		"tool_choice", "tools", "top_logprobs", "verbosity", "web_search_options"}
	openaiText = []string{"prompt", "best_of", "echo", "suffix"}
)

// take implements face.
func (openaiWire) take(s *Server, w *wireRequest, in intake) *apiError {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(in.body, &members) // it has been read before
	own := openaiText
	if in.api == apiChat {
		own = openaiChat
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(openaiShared, name) && !slices.Contains(own, name) {
			return &apiError{status: http.StatusBadRequest, message: "Unrecognized request argument supplied: " + name}
		}
	}
	if w.Model == "" {
		return &apiError{status: http.StatusBadRequest, message: "you must provide a model parameter"}
	}
	if w.Model != s.opts.Model {
		return &apiError{status: http.StatusNotFound, kind: "model_not_found", message: "The model `" + w.Model + "` does not exist or you do not have access to it."}
	}
	w.StreamOptions = usageOption(w.StreamOptions)
	return s.opts.Hosted.check(w, in)
}

// usageOption keeps of the options of a stream the one that all engines know, and makes them fit any request.
func usageOption(o *streamOptions) *streamOptions {
	if o == nil || !o.IncludeUsage {
		return nil
	}
	return &streamOptions{IncludeUsage: true, anywhere: true}
}

// fail implements face.
func (openaiWire) fail(err *apiError) any {
	e := errorBody{Message: strings.TrimPrefix(err.message, "1 validation error:\n  "), Type: "invalid_request_error", Param: ptr(err.param)}
	switch {
	case err.status >= http.StatusInternalServerError:
		e.Type = "server_error"
	case err.kind == kindSchema:
		e.Param = nil
	case err.long != nil:
		e.Code = "context_length_exceeded"
	case err.kind != "" && err.status == http.StatusNotFound:
		e.Code = err.kind
	}
	return errorIn{e}
}

// absent implements face.
func (o openaiWire) absent(w http.ResponseWriter, r *http.Request, known bool) {
	status, message := http.StatusNotFound, "Invalid URL ("+r.Method+" "+r.URL.Path+")"
	if known {
		status, message = http.StatusMethodNotAllowed, "Not allowed to "+r.Method+" on "+r.URL.Path+"."
	}
	writeJSON(w, status, o.fail(&apiError{message: message}))
}

func (s *Server) openaiModels(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, models{"list", []any{modelCard{s.opts.Model, "model", time.Now().Unix(), "organization-owner"}}})
}

// head implements face.
func (openaiWire) head(c *call, stream bool) *answerBody {
	a := c.headOf(stream)
	a.Fingerprint = "fp_51a0c0de"
	return a
}

// finish implements face: the API knows no other ends.
func (openaiWire) finish(c *call, v *choiceBody, end *ending) {
	finish := end.finish
	if finish != "" && finish != finishLength {
		finish = finishStop
	}
	v.Finish = c.reason(finish)
}

// logprobs implements face: the end of an answer is not shown.
func (openaiWire) logprobs(end *ending) any {
	lps := end.lps
	if end.finish == finishStop && end.stop == nil && len(lps) > 0 {
		lps = lps[:len(lps)-1]
	}
	return contentOf(lps, (*tokenLogprob).ranking)
}

// textLogprobs implements face.
func (openaiWire) textLogprobs(lps []*tokenLogprob, offset int) any {
	return newTextLogprobs(lps, offset)
}

// whole implements face.
func (o openaiWire) whole(c *call, a *answerBody, t spend) {
	o.usage(c, a, t)
	for _, v := range a.Choices {
		if m := v.(*choiceBody).Message; m != nil {
			m.Refusal = null
		}
	}
}

// opened implements face.
func (openaiWire) opened(c *call) []any { return c.roles() }

// chunk implements face.
func (openaiWire) chunk(c *call, ev *chunk) []any { return c.split(ev) }

// usage implements face.
func (openaiWire) usage(c *call, a *answerBody, t spend) {
	u := t.body()
	if c.s.opts.Hosted.on() {
		u.Details = cachedTokens{t.cached}
	}
	a.Usage = u
}
