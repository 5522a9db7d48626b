package vllmsim

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// This file is a server of which nothing is known but that it speaks OpenAI's API, as the hosted one does (OpenAI's published
// API specification, version 2.3.0): members that it does not know are refused, and there is no route beside it.

const openaiFingerprint = "fp_51a0c0de"

var openaiTraits = traits{page: func(*Server) []byte { return nil }}

type openaiWire struct{}

// routes implements wire.
func (openaiWire) routes(s *Server) map[string]route {
	return map[string]route{
		"/v1/models": onGet(s.openaiModels), "/v1/chat/completions": s.generate(apiChat), "/v1/completions": s.generate(apiCompletion),
		"/v1/embeddings": onPost(s.serveEmbeddings),
	}
}

// The members that requests may have.
var (
	openaiShared = []string{"model", "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "n", "presence_penalty", "seed", "stop",
		"stream", "stream_options", "temperature", "top_p", "user"}
	openaiChat = []string{"messages", "audio", "function_call", "functions", "max_completion_tokens", "metadata", "modalities",
		"parallel_tool_calls", "prediction", "prompt_cache_key", "reasoning_effort", "response_format", "safety_identifier", "service_tier", "store",
		"tool_choice", "tools", "top_logprobs", "verbosity", "web_search_options"}
	openaiText = []string{"prompt", "best_of", "echo", "suffix"}
)

// take implements wire.
func (openaiWire) take(s *Server, w *wireRequest, in intake) *apiError {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(in.body, &members) // it has been read before
	own := openaiText
	if in.api == apiChat {
		own = openaiChat
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
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
	return nil
}

// fail implements wire.
func (openaiWire) fail(err *apiError) []byte {
	kind, code, message := "invalid_request_error", "", err.message
	switch {
	case err.status >= http.StatusInternalServerError:
		kind = "server_error"
	case err.long != nil:
		code = "context_length_exceeded"
	case err.status == http.StatusNotFound:
		code = err.kind
	}
	b := appendQuoted([]byte(`{"error":{"message":`), strings.TrimPrefix(message, "1 validation error:\n  "))
	b = appendNullable(append(b, `,"type":"`+kind+`","param":`...), err.param)
	return append(appendNullable(append(b, `,"code":`...), code), "}}"...)
}

// absent implements wire.
func (f openaiWire) absent(w http.ResponseWriter, r *http.Request, known bool) {
	path := "/metrics"
	if r != nil {
		path = r.URL.Path
	}
	if known {
		writeJSON(w, http.StatusMethodNotAllowed, f.fail(&apiError{message: "Not allowed to " + r.Method + " on " + path + "."}))
		return
	}
	method := http.MethodGet
	if r != nil {
		method = r.Method
	}
	writeJSON(w, http.StatusNotFound, f.fail(&apiError{message: "Invalid URL (" + method + " " + path + ")"}))
}

func (s *Server) openaiModels(w http.ResponseWriter, _ *http.Request) {
	s.writePlainModel(w, plainModel{s.shownModel(), "model", time.Now().Unix(), "organization-owner"})
}

type openaiAnswer struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Created     int64        `json:"created"`
	Model       string       `json:"model"`
	Choices     []any        `json:"choices"`
	Usage       *openaiUsage `json:"usage,omitempty"`
	Fingerprint string       `json:"system_fingerprint"`
}

type openaiUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

func (t spend) openai() *openaiUsage {
	return &openaiUsage{t.prompt, t.generated, t.prompt + t.generated}
}

type openaiChoice struct {
	Index    int             `json:"index"`
	Message  *openaiMessage  `json:"message,omitempty"`
	Delta    *openaiDelta    `json:"delta,omitempty"`
	Logprobs *openaiLogprobs `json:"logprobs"`
	Finish   *string         `json:"finish_reason"`
}

type openaiMessage struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	ToolCalls []wireCall `json:"tool_calls,omitempty"`
	Refusal   *string    `json:"refusal"`
}

type openaiDelta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	ToolCalls []wireCall `json:"tool_calls,omitempty"`
}

type openaiLogprobs struct {
	Content []sglangLogprob `json:"content"` // entries without an id are alike
	Refusal *string         `json:"refusal"`
}

// openaiText1 is a choice of /v1/completions.
type openaiText1 struct {
	Text     string          `json:"text"`
	Index    int             `json:"index"`
	Logprobs json.RawMessage `json:"logprobs"`
	Finish   *string         `json:"finish_reason"`
}

func openaiList(lps []*tokenLogprob, ended bool) *openaiLogprobs {
	if ended && len(lps) > 0 {
		lps = lps[:len(lps)-1] // the end of an answer is not shown
	}
	if len(lps) == 0 {
		return nil
	}
	return &openaiLogprobs{Content: logprobsOf(lps, newSGLangLogprob)}
}

func (c *call) openaiHead(stream bool, choices ...any) openaiAnswer {
	if choices == nil {
		choices = []any{}
	}
	return openaiAnswer{ID: c.req.id, Object: c.object(stream), Created: c.req.created, Model: c.req.model, Choices: choices, Fingerprint: openaiFingerprint}
}

// answer implements wire.
func (openaiWire) answer(c *call, choices []choice) any {
	list := make([]any, len(choices))
	for i := range choices {
		ch := &choices[i]
		text, finish := ch.text.String(), c.openaiFinish(ch.finish)
		if !c.req.chat {
			list[i] = openaiText1{c.completionText(i/c.req.n, text), i, c.openaiScores(i, ch.lps), finish}
			continue
		}
		m := &openaiMessage{Role: "assistant", Content: &text, ToolCalls: c.calls()}
		if m.ToolCalls != nil {
			m.Content = nil
		}
		list[i] = openaiChoice{Index: i, Message: m, Logprobs: openaiList(ch.lps, endsItself(ch.finish, ch.stop)), Finish: finish}
	}
	v := c.openaiHead(false, list...)
	v.Usage = c.spend(choices).openai()
	return v
}

// openaiScores are the logprobs of generated tokens in the old shape; the prompt's are not told.
func (c *call) openaiScores(i int, lps []*tokenLogprob) json.RawMessage {
	if c.req.specs[i].logprobs < 0 {
		return nil
	}
	var l completionLogprobs
	l.addAll(lps)
	return l.append(nil)
}

// first implements wire.
func (openaiWire) first(c *call) []any {
	if !c.req.chat {
		return nil
	}
	var list []any
	for i := range c.jobs {
		empty := ""
		list = append(list, c.openaiHead(true, openaiChoice{Index: i, Delta: &openaiDelta{Role: "assistant", Content: &empty}}))
	}
	return list
}

// chunk implements wire.
func (openaiWire) chunk(c *call, ev *chunk, _ int) []any {
	text := ev.said()
	finish := c.openaiFinish(ev.finish)
	if !c.req.chat {
		return []any{c.openaiHead(true, openaiText1{text, ev.choice, c.openaiScores(ev.choice, ev.lps), finish})}
	}
	var out []any
	d := &openaiDelta{Content: ptr(text), ToolCalls: c.callDelta(ev)}
	lps := openaiList(ev.lps, endsItself(ev.finish, ev.stop))
	if d.Content != nil || d.ToolCalls != nil || lps != nil {
		out = append(out, c.openaiHead(true, openaiChoice{Index: ev.choice, Delta: d, Logprobs: lps}))
	}
	if finish != nil {
		out = append(out, c.openaiHead(true, openaiChoice{Index: ev.choice, Delta: &openaiDelta{}, Finish: finish}))
	}
	return out
}

// last implements wire.
func (openaiWire) last(c *call, t spend) []any {
	if !c.req.usage {
		return nil
	}
	v := c.openaiHead(true)
	v.Usage = t.openai()
	return []any{v}
}

// endsItself reports whether the last token is the model's own end.
func endsItself(finish string, stop any) bool { return finish == finishStop && stop == nil }

// openaiFinish is the reason in the API's words; nil while an answer goes on.
func (c *call) openaiFinish(finish string) *string {
	switch finish {
	case "":
		return nil
	case finishStop, finishLength:
	default:
		finish = finishStop
	}
	finish = c.finishOf(finish)
	return &finish
}

// usageOption keeps of the options of a stream the one that all engines know, and makes them fit any request.
func usageOption(o *streamOptions) *streamOptions {
	if o == nil || !o.IncludeUsage {
		return nil
	}
	return &streamOptions{IncludeUsage: true, anywhere: true}
}
