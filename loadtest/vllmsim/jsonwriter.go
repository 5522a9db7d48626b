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
func (w *jsonWriter) call(f *form) {
	w.segment(partHidden)
	w.put(`{"name": "`+f.tool.Function.Name+`", "arguments": `, sureHead)
	w.segment(partArgs)
	h := hashString(w.h, f.tool.Function.Name)
	switch {
	case f.given == nil:
		w.schema(f.tool.Function.Parameters, h, 0)
	case f.given.Arguments == nil:
		w.put("{}", sureText)
	default:
		w.choose(h)
		w.value(string(f.given.Arguments))
	}
	w.segment(partHidden)
	w.put("}", sureHead)
}

// repeat is a text that was given beforehand.
func (w *jsonWriter) repeat(text string) (out []scripted) {
	w.choose(hashString(w.h, text))
	for _, id := range w.tok.Encode(text) {
		out = append(out, scripted{id: id, p: w.certainty(), part: partText})
	}
	return out
}

func (w *jsonWriter) segment(p part) { w.segs = append(w.segs, segment{w.text.Len(), p}) }

// tokens encodes what was written, each segment on its own.
func (w *jsonWriter) tokens() []scripted {
	var out []scripted
	text, at, k := w.text.String(), 0, 0
	for i, s := range w.segs {
		to := len(text)
		if i+1 < len(w.segs) {
			to = w.segs[i+1].from
		}
		for _, id := range w.tok.Encode(text[s.from:to]) {
			for w.sure[k].to <= at {
				k++
			}
			out = append(out, scripted{id: id, p: w.sure[k].p, part: s.part})
			at += len(w.tok.pieces[id])
		}
		if s.part == partHidden && i == 0 && len(out) > 0 {
			out[len(out)-1].part = partName
		}
	}
	return out
}

func (w *jsonWriter) put(s string, p float64) {
	w.text.WriteString(s)
	w.sure = append(w.sure, stretch{w.text.Len(), p})
}

// choose returns the hash that a value is made from: the target's, or the draft's own.
func (w *jsonWriter) choose(h uint64) uint64 {
	w.strayed = unit(mix(h, 0xd1f)) < w.stray
	if w.strayed {
		return mix(h, 0xa17)
	}
	return mix(h, 0x0a)
}

func (w *jsonWriter) certainty() float64 {
	if w.strayed && !w.blind {
		return sureStray
	}
	return sureText
}

// value writes a value that is not put together from others.
func (w *jsonWriter) value(own string) { w.put(own, w.certainty()) }

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
func (w *jsonWriter) schema(raw json.RawMessage, h uint64, depth int) {
	var j jsonSchema
	if !isNull(raw) && json.Unmarshal(raw, &j) != nil || depth > 8 {
		w.value("{}")
		return
	}
	v := w.choose(h)
	switch {
	case !isNull(j.Const):
		w.value(string(j.Const))
	case len(j.Enum) > 0:
		w.value(string(j.Enum[v%uint64(len(j.Enum))]))
	case j.kind() == "object":
		w.object(&j, h, depth)
	case j.kind() == "array":
		w.array(&j, h, depth, 1+int(v%2))
	default:
		w.scalar(&j, v)
	}
}

func (w *jsonWriter) array(j *jsonSchema, h uint64, depth, n int) {
	if j.Items == nil {
		n = 0
	}
	w.put("[", sureText)
	for i := range n {
		if i > 0 {
			w.put(", ", sureText)
		}
		w.schema(j.Items, mix(h, uint64(i)), depth+1)
	}
	w.put("]", sureText)
}

func (w *jsonWriter) object(j *jsonSchema, h uint64, depth int) {
	w.put("{", sureText)
	for i, name := range slices.Sorted(maps.Keys(j.Properties)) {
		if i > 0 {
			w.put(", ", sureText)
		}
		w.put(string(encode(name))+": ", sureText)
		w.schema(j.Properties[name], hashString(h, name), depth+1)
	}
	w.put("}", sureText)
}

func (w *jsonWriter) scalar(j *jsonSchema, v uint64) {
	base := 0
	if j.Minimum != nil {
		base = int(*j.Minimum)
	}
	switch j.kind() {
	case "integer":
		w.value(strconv.Itoa(base + int(v%100)))
	case "number":
		w.value(strconv.Itoa(base+int(v%100)) + "." + strconv.Itoa(int(v>>32%9)+1))
	case "boolean":
		w.value(strconv.FormatBool(v&1 == 0))
	case "null":
		w.value("null")
	default:
		nouns, adjs := w.tok.byClass[clsNoun], w.tok.byClass[clsAdj]
		text := w.tok.pieces[adjs[v%uint64(len(adjs))]] + w.tok.pieces[nouns[v>>16%uint64(len(nouns))]]
		w.value(`"` + strings.TrimSpace(text) + `"`)
	}
}
