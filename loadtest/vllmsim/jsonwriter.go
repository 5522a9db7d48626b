package vllmsim

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// anyObject is what a model writes that is asked for JSON and told no more.
var anyObject = json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"},"score":{"type":"integer"}}}`)

// How sure a model is of its own JSON.
const (
	sureHead  = 0.999 // of a tool call's head and of the end
	sureText  = 0.985
	sureStray = 0.6 // where a draft that sees leaves the target's way
)

// jsonWriter writes JSON that fits a schema, remembering how sure the model is of each stretch. A draft goes its own way
// at a value with probability 2*divergence*difficulty, and is then unsure of it unless it is blind.
type jsonWriter struct {
	tok     *Tokenizer
	h       uint64
	stray   float64
	blind   bool
	strayed bool

	text strings.Builder
	sure []stretch
	segs []segment
}

type stretch struct {
	to int
	p  float64
}

type segment struct {
	from int
	part part
}

// answer is what a model writes in one voice for a request of a form, its end included.
func (m *Model) answer(v *voice, f *form) []scripted {
	b := &jsonWriter{tok: m.tok, h: mix(v.hash, 0x15), stray: 2 * v.stray, blind: v.blind}
	end := scripted{id: tokEOT, p: sureHead}
	var before []scripted
	if f.given != nil {
		before = b.repeat(f.given.Text)
	}
	switch {
	case f.tool != nil:
		end.part = partHidden
		before = append(before, callTag)
		b.call(f)
	case f.given != nil:
		return append(before, end)
	case len(f.choice) > 0:
		b.segment(partText)
		b.value(f.choice[b.choose(b.h)%uint64(len(f.choice))])
	default:
		b.segment(partText)
		b.schema(f.schema, b.h, 0)
	}
	return append(append(before, b.tokens()...), end)
}

// call writes the call of a tool.
func (b *jsonWriter) call(f *form) {
	b.segment(partHidden)
	b.put(`{"name": "`+f.tool.Function.Name+`", "arguments": `, sureHead)
	b.segment(partArgs)
	h := hashString(b.h, f.tool.Function.Name)
	switch {
	case f.given == nil:
		b.schema(f.tool.Function.Parameters, h, 0)
	case f.given.Arguments == nil:
		b.put("{}", sureText)
	default:
		b.choose(h)
		b.value(string(f.given.Arguments))
	}
	b.segment(partHidden)
	b.put("}", sureHead)
}

// repeat is a text that was given beforehand.
func (b *jsonWriter) repeat(text string) (out []scripted) {
	b.choose(hashString(b.h, text))
	for _, id := range b.tok.Encode(text) {
		out = append(out, scripted{id: id, p: b.certainty(), part: partText})
	}
	return out
}

func (b *jsonWriter) segment(p part) { b.segs = append(b.segs, segment{b.text.Len(), p}) }

// tokens encodes what was written, each segment on its own.
func (b *jsonWriter) tokens() []scripted {
	var out []scripted
	text, at, k := b.text.String(), 0, 0
	for i, s := range b.segs {
		to := len(text)
		if i+1 < len(b.segs) {
			to = b.segs[i+1].from
		}
		for _, id := range b.tok.Encode(text[s.from:to]) {
			for b.sure[k].to <= at {
				k++
			}
			out = append(out, scripted{id: id, p: b.sure[k].p, part: s.part})
			at += len(b.tok.pieces[id])
		}
		if s.part == partHidden && i == 0 && len(out) > 0 {
			out[len(out)-1].part = partName
		}
	}
	return out
}

func (b *jsonWriter) put(s string, p float64) {
	b.text.WriteString(s)
	b.sure = append(b.sure, stretch{b.text.Len(), p})
}

// choose returns the hash that a value is made from: the target's, or the draft's own.
func (b *jsonWriter) choose(h uint64) uint64 {
	b.strayed = unit(mix(h, 0xd1f)) < b.stray
	if b.strayed {
		return mix(h, 0xa17)
	}
	return mix(h, 0x0a)
}

func (b *jsonWriter) certainty() float64 {
	if b.strayed && !b.blind {
		return sureStray
	}
	return sureText
}

// value writes a value that is not put together from others.
func (b *jsonWriter) value(own string) { b.put(own, b.certainty()) }

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
		b.value("{}")
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
		b.array(&j, h, depth, 1+int(v%2))
	default:
		b.scalar(&j, v)
	}
}

func (b *jsonWriter) array(j *jsonSchema, h uint64, depth, n int) {
	if j.Items == nil {
		n = 0
	}
	b.put("[", sureText)
	for i := range n {
		if i > 0 {
			b.put(", ", sureText)
		}
		b.schema(j.Items, mix(h, uint64(i)), depth+1)
	}
	b.put("]", sureText)
}

func (b *jsonWriter) object(j *jsonSchema, h uint64, depth int) {
	b.put("{", sureText)
	for i, name := range slices.Sorted(maps.Keys(j.Properties)) {
		if i > 0 {
			b.put(", ", sureText)
		}
		b.put(string(encode(name))+": ", sureText)
		b.schema(j.Properties[name], hashString(h, name), depth+1)
	}
	b.put("}", sureText)
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
