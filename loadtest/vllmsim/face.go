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

// face is the wire of an engine other than vLLM. The model, the scheduler and the faults behind it are the same. A server
// without a face speaks as vLLM does.
type face struct {
	traits
	wire
}

// traits are what an engine does in its own way.
type traits struct {
	echoes bool                   // answers repeat the requested model's name
	page   func(s *Server) []byte // /metrics
}

// wire is what an engine reads and writes.
type wire interface {
	// routes are all paths.
	routes(s *Server) map[string]route
	// take makes of a body what the engine makes of it: members that it does not know are left out, and it has its own defaults.
	take(s *Server, w *wireRequest, in intake) *apiError
	// fail is the body of an error, and of an error event.
	fail(err *apiError) []byte
	// absent answers for a path that does not exist, or with a method that the path has not got.
	absent(w http.ResponseWriter, r *http.Request, known bool)
	// answer is the body of a JSON answer.
	answer(c *call, choices []choice) any
	// first are the chunks that open a stream, one chunk's are those of an output, last those that end it.
	first(c *call) []any
	chunk(c *call, ev *chunk, sent int) []any
	last(c *call, t spend) []any
}

// spend is what a stream has used.
type spend struct{ prompt, generated, cached int }

func newFace(engine string) *face {
	switch engine {
	case engineSGLang:
		return &face{sglangTraits, sglangWire{}}
	case engineOpenAI:
		return &face{openaiTraits, openaiWire{}}
	}
	return nil
}

func checkEngine(o *Options) error {
	switch {
	case !slices.Contains(Engines(), o.Engine):
		return fmt.Errorf("vllmsim: unknown engine %q; known: %s", o.Engine, strings.Join(Engines(), ", "))
	case o.Engine != engineVLLM && o.SGLang:
		return fmt.Errorf("vllmsim: SGLang's half face is vLLM's, not that of engine %q", o.Engine)
	}
	return nil
}

// encode writes a value as the engine's JSON library does.
func (f *face) encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // values of our own types
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// errorBody is an error as the server's engine writes it.
func (s *Server) errorBody(err *apiError) []byte {
	if s.face != nil {
		return s.face.fail(err)
	}
	return err.body()
}

// absent answers for a path or a method that the server has not got.
func (s *Server) absent(w http.ResponseWriter, r *http.Request, known bool) {
	if s.face != nil {
		s.face.absent(w, r, known)
		return
	}
	frameworkAbsent(w, known)
}

// frameworkAbsent is FastAPI's answer.
func frameworkAbsent(w http.ResponseWriter, known bool) {
	if known {
		writeJSON(w, http.StatusMethodNotAllowed, []byte(`{"detail":"Method Not Allowed"}`))
		return
	}
	writeJSON(w, http.StatusNotFound, []byte(`{"detail":"Not Found"}`))
}

// plainModel is a model of /v1/models with OpenAI's members alone.
type plainModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// writePlainModel answers a list of one model.
func (s *Server) writePlainModel(w http.ResponseWriter, m plainModel) {
	s.writeFace(w, struct {
		Object string       `json:"object"`
		Data   []plainModel `json:"data"`
	}{"list", []plainModel{m}})
}

// writeFace answers 200 with a value.
func (s *Server) writeFace(w http.ResponseWriter, v any) {
	writeJSON(w, http.StatusOK, s.face.encode(v))
}

// spend counts a whole JSON answer.
func (c *call) spend(choices []choice) spend {
	t := spend{prompt: c.promptTokens()}
	for i := range choices {
		t.generated += choices[i].tokens
		t.cached += choices[i].cached
	}
	return t
}

func (c *call) promptTokens() (n int) {
	for _, p := range c.req.prompts {
		n += len(p)
	}
	return n
}

// object names the kind of an answer.
func (c *call) object(stream bool) string {
	switch {
	case !c.req.chat:
		return "text_completion"
	case stream:
		return "chat.completion.chunk"
	}
	return "chat.completion"
}

// logprobsOf are the alternatives of tokens in the shape of one engine.
func logprobsOf[T any](lps []*tokenLogprob, one func(*tokenLogprob) T) []T {
	out := make([]T, len(lps))
	for i, lp := range lps {
		out[i] = one(lp)
	}
	return out
}

// bytesOf are a text's bytes as numbers.
func bytesOf(text string) []int {
	out := make([]int, len(text))
	for i := range len(text) {
		out[i] = int(text[i])
	}
	return out
}

// wireCall is a tool call as most engines write it.
type wireCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
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
		return []wireCall{{Index: &zero, ID: c.req.tool.id, Type: "function", Function: wireFunction{Name: c.req.tool.name}}}
	case partArgs:
		return []wireCall{{Index: &zero, Function: wireFunction{Arguments: ev.text}}}
	case partText, partHidden:
	}
	return nil
}

// said is the text of an output that belongs to the answer.
func (ev *chunk) said() string {
	if ev.part == partText {
		return ev.text
	}
	return ""
}

// ptr is a pointer to a text, nil to none.
func ptr(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
