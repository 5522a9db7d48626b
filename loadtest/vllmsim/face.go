package vllmsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// The engines whose wire a server can have ([Options.Engine]).
const (
	engineVLLM   = "vllm"
	engineSGLang = "sglang"
	engineOpenAI = "openai"
)

// Engines returns the values of [Options.Engine].
func Engines() []string {
	return []string{engineVLLM, engineSGLang, engineOpenAI}
}

// face is the wire of an engine. The model, the scheduler and the faults behind it are the same.
type face interface {
	// routes are all paths.
	routes(s *Server) map[string]route
	// page is /metrics.
	page(s *Server) ([]byte, error)
	// take makes of a body what the engine makes of it: members that it does not know are left out, and it has its own defaults.
	take(s *Server, w *wireRequest, in intake) *apiError
	// fail is the body of an error, and of an error event.
	fail(err *apiError) any
	// absent answers for a path that does not exist, or with a method that the path has not got.
	absent(w http.ResponseWriter, r *http.Request, known bool)
	// head is an answer or a chunk without its choices.
	head(c *call, stream bool) *answerBody
	// finish says how a choice ended, if it has, and adds what the engine tells beside.
	finish(c *call, v *choiceBody, end *ending)
	// logprobs are those of a chat, textLogprobs those of a completion; nil is none.
	logprobs(end *ending) any
	textLogprobs(lps []*tokenLogprob, offset int) any
	// whole completes a JSON answer, and opened, chunk and usage make a stream: its first chunks, those of an output, and
	// the one that tells what it has used.
	whole(c *call, a *answerBody, t spend)
	opened(c *call) []any
	chunk(c *call, ev *chunk) []any
	usage(c *call, a *answerBody, t spend)
}

// spend is what an answer has used.
type spend struct{ prompt, generated, cached int }

// ending is what is known of a choice: how it ended, with the ids and logprobs that are told with it.
type ending struct {
	prompt []int32
	finish string // "" while it goes on
	stop   any    // stop_reason
	ids    []int32
	lps    []*tokenLogprob
}

func newFace(engine string) face {
	switch engine {
	case engineSGLang:
		return sglangWire{}
	case engineOpenAI:
		return openaiWire{}
	}
	return vllmWire{}
}

func checkEngine(o *Options) error {
	if !slices.Contains(Engines(), o.Engine) {
		return fmt.Errorf("vllmsim: unknown engine %q; known: %s", o.Engine, strings.Join(Engines(), ", "))
	}
	return nil
}

// null is a member that an engine writes though there is nothing to tell.
var null = json.RawMessage("null")

// orNull is v, or null where there is none.
func orNull[T any](v []T) any {
	if v == nil {
		return null
	}
	return v
}

// answerBody is an answer or a chunk of a stream.
type answerBody struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Choices     []any  `json:"choices"`
	Usage       any    `json:"usage,omitempty"`
	Fingerprint string `json:"system_fingerprint,omitempty"`
	Metadata    any    `json:"metadata,omitempty"` // of SGLang

	// Of vLLM.
	PromptScores any             `json:"prompt_logprobs,omitempty"`
	PromptIDs    any             `json:"prompt_token_ids,omitempty"`
	PromptText   json.RawMessage `json:"prompt_text,omitempty"`
	Tier         json.RawMessage `json:"service_tier,omitempty"`
	KV           json.RawMessage `json:"kv_transfer_params,omitempty"`
	EC           json.RawMessage `json:"ec_transfer_params,omitempty"`
	Metrics      json.RawMessage `json:"metrics,omitempty"`
}

// choiceBody is a choice of either.
type choiceBody struct {
	Index    int      `json:"index"`
	Text     *string  `json:"text,omitempty"`
	Message  *message `json:"message,omitempty"`
	Delta    *message `json:"delta,omitempty"`
	Logprobs any      `json:"logprobs"`
	Finish   *string  `json:"finish_reason"`
	Stop     any      `json:"stop_reason,omitempty"`
	Matched  any      `json:"matched_stop,omitempty"` // SGLang's stop_reason
	TokenIDs any      `json:"token_ids,omitempty"`

	PromptScores any             `json:"prompt_logprobs,omitempty"`
	PromptIDs    any             `json:"prompt_token_ids,omitempty"`
	Experts      json.RawMessage `json:"routed_experts,omitempty"`
}

// message is a message, or what a chunk says of one.
type message struct {
	Role      string          `json:"role,omitempty"`
	Content   any             `json:"content,omitempty"`
	Thoughts  json.RawMessage `json:"reasoning_content,omitempty"` // of SGLang
	ToolCalls []wireCall      `json:"tool_calls,omitempty"`
	Refusal   json.RawMessage `json:"refusal,omitempty"`

	// Of vLLM.
	Annotations json.RawMessage `json:"annotations,omitempty"`
	Audio       json.RawMessage `json:"audio,omitempty"`
	Function    json.RawMessage `json:"function_call,omitempty"`
	Reasoning   json.RawMessage `json:"reasoning,omitempty"`
}

// wireCall is a tool call.
type wireCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments any    `json:"arguments,omitempty"` // a text; nil: vLLM tells a call's name first
}

// usageBody is what an answer has used.
type usageBody struct {
	Prompt     int             `json:"prompt_tokens"`
	Total      int             `json:"total_tokens"`
	Completion int             `json:"completion_tokens"`
	Details    any             `json:"prompt_tokens_details,omitempty"`
	Spent      json.RawMessage `json:"completion_tokens_details,omitempty"`
	Reasoning  *int            `json:"reasoning_tokens,omitempty"` // of SGLang
}

func (s spend) body() *usageBody {
	return &usageBody{Prompt: s.prompt, Total: s.prompt + s.generated, Completion: s.generated}
}

type cachedTokens struct {
	Tokens int `json:"cached_tokens"`
}

// encode writes a value as an engine's JSON library does.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // values of our own types
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(v)) // the client may be gone
}

func (s *Server) writeError(w http.ResponseWriter, err *apiError) {
	writeJSON(w, err.status, s.face.fail(err))
}

// frameworkAbsent is FastAPI's answer for a path or a method that there is not.
func frameworkAbsent(w http.ResponseWriter, known bool) {
	type detail struct {
		Detail string `json:"detail"`
	}
	if known {
		writeJSON(w, http.StatusMethodNotAllowed, detail{"Method Not Allowed"})
		return
	}
	writeJSON(w, http.StatusNotFound, detail{"Not Found"})
}

// models is /v1/models with its one model.
type models struct {
	Object string `json:"object"`
	Data   []any  `json:"data"`
}

// modelCard is what all engines tell of a model.
type modelCard struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// headOf is an answer's head as all engines have it.
func (c *call) headOf(stream bool) *answerBody {
	a := &answerBody{ID: c.req.id, Object: "text_completion", Created: c.req.created, Model: c.req.model, Choices: []any{}}
	switch {
	case c.req.chat && stream:
		a.Object = "chat.completion.chunk"
	case c.req.chat:
		a.Object = "chat.completion"
	}
	return a
}

// reason is the finish reason as it is shown; nil while an answer goes on.
func (c *call) reason(finish string) *string {
	if finish == "" {
		return nil
	}
	if finish == finishStop && c.req.tool != nil && (!c.req.named || !c.s.vllm()) {
		finish = finishTools
	}
	return &finish
}

// calls are the tool calls of an answer.
func (c *call) calls() []wireCall {
	t := c.req.tool
	if t == nil {
		return nil
	}
	return []wireCall{{ID: t.id, Type: "function", Function: wireFunction{Name: t.name, Arguments: t.args}}}
}

// callDelta is what an output says of a tool call; nil where it says nothing.
func (c *call) callDelta(ev *chunk) []wireCall {
	zero := 0
	switch ev.part {
	case partName:
		f := wireFunction{Name: c.req.tool.name}
		if !c.s.vllm() {
			f.Arguments = ""
		}
		return []wireCall{{Index: &zero, ID: c.req.tool.id, Type: "function", Function: f}}
	case partArgs:
		return []wireCall{{Index: &zero, Function: wireFunction{Arguments: ev.text}}}
	case partText, partHidden:
	}
	return nil
}

// said is the text of an output that belongs to the answer.
func (c *chunk) said() string {
	if c.part == partText {
		return c.text
	}
	return ""
}

// roles are the chunks that open the choices of a chat.
func (c *call) roles() []any {
	if !c.req.chat {
		return nil
	}
	var list []any
	for i := range c.jobs {
		a := c.s.face.head(c, true)
		a.Choices = append(a.Choices, choiceBody{Index: i, Delta: &message{Role: c.req.role, Content: ""}})
		list = append(list, a)
	}
	return list
}

// chunkWith is a chunk of one choice.
func (c *call) chunkWith(v *choiceBody) *answerBody {
	a := c.s.face.head(c, true)
	a.Choices = append(a.Choices, v)
	return a
}

// split are the chunks of an output where the end of a chat has one of its own.
func (c *call) split(ev *chunk) []any {
	f := c.s.face
	v := &choiceBody{Index: ev.choice}
	if !c.req.chat {
		text := ev.said()
		v.Text = &text
		if ev.end.lps != nil {
			v.Logprobs = f.textLogprobs(ev.end.lps, 0)
		}
		f.finish(c, v, &ev.end)
		return []any{c.chunkWith(v)}
	}
	var out []any
	v.Delta, v.Logprobs = &message{ToolCalls: c.callDelta(ev)}, f.logprobs(&ev.end)
	if text := ev.said(); text != "" {
		v.Delta.Content = text
	}
	if v.Delta.Content != nil || v.Delta.ToolCalls != nil || v.Logprobs != nil {
		f.finish(c, v, &ending{})
		out = append(out, c.chunkWith(v))
	}
	if ev.finish != "" {
		last := &choiceBody{Index: ev.choice, Delta: &message{}}
		f.finish(c, last, &ev.end)
		out = append(out, c.chunkWith(last))
	}
	return out
}
