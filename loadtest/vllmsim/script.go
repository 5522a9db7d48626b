package vllmsim

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// toolCall is the call that an answer makes.
type toolCall struct{ id, name, args string }

// autoCallOdds is the share of prompts that make the model call a tool it may call.
const autoCallOdds = 0.4

// script decides whether the answer is forced by a grammar (tool call, JSON), and returns its tokens.
func (s *Server) script(w *wireRequest, r *request) ([]scripted, *apiError) {
	if !r.chat || len(r.prompts) == 0 {
		return s.structuredScript(w, r)
	}
	tool, err := w.pickTool(mix(s.model.seed, hashIDs(0x7001, r.prompts[0])))
	if err != nil {
		return nil, err
	}
	if tool == nil {
		return s.structuredScript(w, r)
	}
	b := s.writer(r.prompts[0])
	b.schema(tool.Function.Parameters, hashString(b.h, tool.Function.Name), 0)
	r.tool = &toolCall{name: tool.Function.Name, args: b.text.String(),
		id: "chatcmpl-tool-" + strconv.FormatUint(hashString(s.nonce, r.id), 16)}
	out := s.forced([]scripted{{id: tokPythonTag, p: 0.97, part: partHidden}}, `{"name": "`+r.tool.name+`", "arguments": `, partHidden)
	out[len(out)-1].part = partName
	out = append(out, b.tokens(partArgs)...)
	out = s.forced(out, "}", partHidden)
	return append(out, scripted{id: tokEOT, p: 0.999, part: partHidden}), nil
}

// pickTool returns the tool to call, or nil.
func (w *wireRequest) pickTool(h uint64) (*wireTool, *apiError) {
	if len(w.Tools) == 0 {
		return nil, nil
	}
	var mode string
	if isNull(w.ToolChoice) {
		mode = "auto"
	} else if json.Unmarshal(w.ToolChoice, &mode) != nil {
		var named wireTool
		if json.Unmarshal(w.ToolChoice, &named) != nil {
			return nil, refused("`tool_choice` must be a named tool, \"auto\", \"none\" or \"required\".")
		}
		for i := range w.Tools {
			if w.Tools[i].Function.Name == named.Function.Name {
				return &w.Tools[i], nil
			}
		}
		return nil, refused("The tool specified in `tool_choice` does not match any of the specified `tools`")
	}
	switch mode {
	case "required":
		return &w.Tools[0], nil
	case "auto":
		if unit(h) < autoCallOdds {
			return &w.Tools[0], nil
		}
		return nil, nil
	case "none":
		return nil, nil
	}
	return nil, refused("Invalid value for `tool_choice`: " + mode)
}

// structuredScript forces JSON or one of several texts.
func (s *Server) structuredScript(w *wireRequest, r *request) ([]scripted, *apiError) {
	if len(r.prompts) == 0 {
		return nil, nil
	}
	b := s.writer(r.prompts[0])
	switch f, o := w.ResponseFormat, w.StructuredOutputs; {
	case f != nil && f.Type == "json_object", o != nil && o.JSONObject:
		b.schema(json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"},"score":{"type":"integer"}}}`), b.h, 0)
	case f != nil && f.Type == "json_schema":
		if f.JSONSchema == nil {
			return nil, refused("response_format of type json_schema needs `json_schema`.")
		}
		b.schema(f.JSONSchema.Schema, b.h, 0)
	case f != nil && f.Type != "text":
		return nil, refused("Unsupported response_format type: " + f.Type)
	case o != nil && !isNull(o.JSON):
		b.schema(o.JSON, b.h, 0)
	case o != nil && len(o.Choice) > 0:
		b.value(o.Choice[b.choose(b.h)%uint64(len(o.Choice))])
	default:
		return nil, nil
	}
	return append(b.tokens(partText), scripted{id: tokEOT, p: 0.999}), nil
}

// forced appends the tokens of fixed text.
func (s *Server) forced(out []scripted, text string, p part) []scripted {
	for _, id := range s.tok.Encode(text) {
		out = append(out, scripted{id: id, p: 0.999, part: p})
	}
	return out
}

// jsonWriter writes JSON that fits a schema, remembering how sure the model is of each stretch. A draft goes its own way
// at a value with probability 2*divergence*difficulty, and is then unsure of it.
type jsonWriter struct {
	tok     *Tokenizer
	h       uint64
	stray   float64
	text    strings.Builder
	unsure  [][2]int // byte ranges where the draft left the target's way
	strayed bool
}

func (s *Server) writer(prompt []int32) *jsonWriter {
	key := hashIDs(0x15, prompt)
	return &jsonWriter{tok: s.tok, h: mix(s.model.seed, key), stray: 2 * s.model.divergence * s.model.Difficulty(prompt)}
}

// choose returns the hash that a value is made from: the target's, or the draft's own.
func (b *jsonWriter) choose(h uint64) uint64 {
	b.strayed = unit(mix(h, 0xd1f)) < b.stray
	if b.strayed {
		return mix(h, 0xa17)
	}
	return mix(h, 0x0a)
}

func (b *jsonWriter) value(s string) {
	from := b.text.Len()
	b.text.WriteString(s)
	if b.strayed {
		b.unsure = append(b.unsure, [2]int{from, b.text.Len()})
	}
}

// tokens encodes what was written.
func (b *jsonWriter) tokens(p part) []scripted {
	var out []scripted
	at := 0
	for _, id := range b.tok.Encode(b.text.String()) {
		sc := scripted{id: id, p: 0.985, part: p}
		for _, u := range b.unsure {
			if at >= u[0] && at < u[1] {
				sc.p = 0.6
			}
		}
		out = append(out, sc)
		at += len(b.tok.pieces[id])
	}
	return out
}

type jsonSchema struct {
	Type       json.RawMessage            `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Items      json.RawMessage            `json:"items"`
	Enum       []json.RawMessage          `json:"enum"`
	Const      json.RawMessage            `json:"const"`
	Minimum    *float64                   `json:"minimum"`
}

func (j *jsonSchema) kind() string {
	var one string
	if json.Unmarshal(j.Type, &one) == nil && one != "" {
		return one
	}
	var many []string
	if json.Unmarshal(j.Type, &many) == nil && len(many) > 0 {
		return many[0]
	}
	if j.Properties != nil || isNull(j.Type) && j.Items == nil {
		return "object"
	}
	return "array"
}

// schema writes a value for a schema. Properties come in order of name; a schema it cannot read is any object.
func (b *jsonWriter) schema(raw json.RawMessage, h uint64, depth int) {
	var j jsonSchema
	if !isNull(raw) && json.Unmarshal(raw, &j) != nil || depth > 8 {
		b.text.WriteString("{}")
		return
	}
	v := b.choose(h)
	switch {
	case !isNull(j.Const):
		b.value(string(j.Const))
	case len(j.Enum) > 0:
		b.value(string(j.Enum[v%uint64(len(j.Enum))]))
	case j.kind() == "object":
		b.object(&j, h, depth)
	case j.kind() == "array":
		b.text.WriteByte('[')
		if j.Items != nil {
			for i := range 1 + v%2 {
				if i > 0 {
					b.text.WriteString(", ")
				}
				b.schema(j.Items, mix(h, i), depth+1)
			}
		}
		b.text.WriteByte(']')
	default:
		b.scalar(&j, v)
	}
}

func (b *jsonWriter) object(j *jsonSchema, h uint64, depth int) {
	names := make([]string, 0, len(j.Properties))
	for n := range j.Properties {
		names = append(names, n)
	}
	slices.Sort(names)
	b.text.WriteByte('{')
	for i, n := range names {
		if i > 0 {
			b.text.WriteString(", ")
		}
		b.text.Write(appendQuoted(nil, n))
		b.text.WriteString(": ")
		b.schema(j.Properties[n], hashString(h, n), depth+1)
	}
	b.text.WriteByte('}')
}

func (b *jsonWriter) scalar(j *jsonSchema, v uint64) {
	base := 0
	if j.Minimum != nil {
		base = int(*j.Minimum)
	}
	switch j.kind() {
	case "integer":
		b.value(strconv.Itoa(base + int(v%100)))
	case "number":
		b.value(strconv.Itoa(base+int(v%100)) + "." + strconv.Itoa(int(v>>32%9)+1))
	case "boolean":
		b.value(strconv.FormatBool(v&1 == 0))
	case "null":
		b.value("null")
	default:
		nouns, adjs := b.tok.byClass[clsNoun], b.tok.byClass[clsAdj]
		text := b.tok.pieces[adjs[v%uint64(len(adjs))]] + b.tok.pieces[nouns[v>>16%uint64(len(nouns))]]
		b.value(`"` + strings.TrimSpace(text) + `"`)
	}
}
