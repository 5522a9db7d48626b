package vllmsim

import (
	"encoding/json"
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
	sureOther = 0.5 // how to go on after what it would not have written itself
)

// jsonWriter writes JSON that fits a schema, remembering how sure the model is of each stretch. A draft goes its own way
// at a value with probability 2*divergence*difficulty, and is then unsure of it unless it is blind.
//
// It writes on from have: what is there already is read along with the schema, so that after a value which the model
// would not have chosen it is on its way again. lost is set by what does not fit at all.
type jsonWriter struct {
	tok     *Tokenizer
	h       uint64
	stray   float64
	blind   bool
	have    string
	pos     int // how much of have was read
	lost    bool
	strayed bool
	free    int // the first choice that no schema makes takes this option; 0 is the default

	text strings.Builder // what comes after have
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

func (m *Model) jsonWriter(v *voice, have string) *jsonWriter {
	return &jsonWriter{tok: m.tok, h: mix(v.hash, 0x15), stray: 2 * v.stray, blind: v.blind, have: have}
}

// answer writes the rest of an answer and its end.
func (b *jsonWriter) answer(f *form) []scripted {
	end := scripted{id: tokEOT, p: sureHead}
	switch {
	case f.tool != nil:
		end.part = partHidden
		b.segment(partHidden)
		b.fixed(`{"name": "` + f.tool.Function.Name + `", "arguments": `)
		b.segment(partArgs)
		b.schema(f.tool.Function.Parameters, hashString(b.h, f.tool.Function.Name), 0)
		b.segment(partHidden)
		b.fixed("}")
	case len(f.choice) > 0:
		b.segment(partText)
		b.choice(f.choice)
	default:
		b.segment(partText)
		b.schema(f.schema, b.h, 0)
	}
	if b.lost || b.pos < len(b.have) {
		return nil
	}
	return append(b.tokens(), end)
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

// done reports whether have is used up. Everything is at its end when nothing fits any more.
func (b *jsonWriter) done() bool { return b.lost || b.pos == len(b.have) }

// fixed writes a text that has no variants.
func (b *jsonWriter) fixed(s string) {
	left := b.have[b.pos:]
	switch {
	case b.done():
		b.put(s, sureHead)
	case strings.HasPrefix(left, s):
		b.pos += len(s)
	case strings.HasPrefix(s, left):
		b.pos = len(b.have)
		b.put(s[len(left):], sureHead)
	default:
		b.lost = true
	}
}

// mark writes punctuation. White space in have may be any.
func (b *jsonWriter) mark(s string) {
	for i := range len(s) {
		if b.done() {
			b.put(s[i:], sureText)
			return
		}
		b.skip()
		if s[i] == ' ' {
			continue
		}
		if b.done() {
			b.put(s[i:], sureText)
			return
		}
		if b.have[b.pos] != s[i] {
			b.lost = true
			return
		}
		b.pos++
	}
}

func (b *jsonWriter) skip() {
	for !b.done() && strings.IndexByte(" \n\r\t", b.have[b.pos]) >= 0 {
		b.pos++
	}
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

// option returns which option of n to take where no schema says.
func (b *jsonWriter) option() int {
	o := b.free
	b.free = 0
	return o
}

// choice writes one of several texts: the model's own, or the one that was begun.
func (b *jsonWriter) choice(list []string) {
	own := list[b.choose(b.h)%uint64(len(list))]
	p := b.certainty()
	if !strings.HasPrefix(own, b.have) {
		p = sureOther
		i := slices.IndexFunc(list, func(s string) bool { return strings.HasPrefix(s, b.have) })
		if i < 0 {
			b.lost = true
			return
		}
		own = list[i]
	}
	b.put(own[len(b.have):], p)
	b.pos = len(b.have)
}

// value writes a value that is not put together from others, or reads over what stands there instead.
func (b *jsonWriter) value(own string, h uint64) {
	b.skip()
	if b.done() {
		b.put(own, b.certainty())
		return
	}
	left := b.have[b.pos:]
	n, whole := scanScalar(left)
	switch {
	case left != "" && (left[0] == '{' || left[0] == '[') && !strings.HasPrefix(own, left[:1]):
		b.any(h, 1)
	case !whole && strings.HasPrefix(own, left), whole && left[:n] == own, own[0] == left[0] && strings.ContainsAny(own[:1], "{[") && strings.HasPrefix(left, own):
		n = min(len(left), len(own))
		b.pos += n
		b.put(own[n:], b.certainty())
	case whole:
		b.pos += n
	case left[0] == '"':
		b.pos = len(b.have)
		if !strings.Contains(left, " ") { // two words are enough
			b.secondWord(h)
		}
		b.put(`"`, sureOther)
	default: // a number or a word that may be complete
		b.pos += n
		b.lost = b.lost || n == 0
	}
}

// secondWord goes on with a string of one word, or leaves it at that and then has the next choice.
func (b *jsonWriter) secondWord(h uint64) {
	if o := b.option(); o > 0 {
		b.free = o - 1
		return
	}
	nouns := b.tok.byClass[clsNoun]
	b.put(b.tok.pieces[nouns[mix(h, 0x0b)%uint64(len(nouns))]], sureOther)
}

// scanScalar returns the length of the string, number or word at the start of s, and whether it surely ends there.
func scanScalar(s string) (n int, whole bool) {
	if s == "" || s[0] != '"' {
		n = strings.IndexAny(s, ",]} \n\r\t")
		if n < 0 {
			return len(s), false
		}
		return n, n > 0
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1, true
		}
	}
	return len(s), false
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
		b.value("{}", h)
		return
	}
	v := b.choose(h)
	switch {
	case !isNull(j.Const):
		b.value(string(j.Const), h)
	case len(j.Enum) > 0:
		b.value(string(j.Enum[v%uint64(len(j.Enum))]), h)
	case j.kind() == "object":
		b.object(&j, h, depth)
	case j.kind() == "array":
		n := 0
		if j.Items != nil {
			n = 1 + int(v%2)
		}
		b.array(&j, h, depth, n)
	default:
		b.scalar(&j, v, h)
	}
}

// any writes a value that no schema describes: most likely a string.
func (b *jsonWriter) any(h uint64, depth int) {
	b.skip()
	v := b.choose(h)
	kind := byte('"')
	if !b.done() {
		if kind = b.have[b.pos]; kind == '1' {
			kind = '0'
		}
	} else if o := b.option(); o > 0 && o < len(anyStarts) {
		if kind = anyStarts[o]; kind == '{' {
			b.free = 1 // not an empty one
		}
	}
	switch kind {
	case '{':
		b.object(&jsonSchema{}, h, depth)
	case '[':
		b.array(&jsonSchema{}, h, depth, 1)
	case '"':
		if left := b.have[b.pos:]; b.free > 0 && len(left) > 1 && !strings.Contains(left, " ") {
			v = ^v // for this option the text is another's, which may end here
		}
		b.scalar(&jsonSchema{}, v, h)
	case '1': // a list of numbers
		b.mark("[")
		b.value(strconv.Itoa(int(v%100)), h)
		b.mark("]")
	case 't', 'f', 'n':
		b.value(map[byte]string{'t': "true", 'f': "false", 'n': "null"}[kind], h)
	default:
		b.value(strconv.Itoa(int(v%100)), h)
	}
}

// anyStarts are the options of any, the default first.
const anyStarts = `"0tfn{[1`

// closes writes what comes after element i: the bracket, if enough have come, or a comma and more.
func (b *jsonWriter) closes(bracket byte, enough, free bool, i int) bool {
	b.skip()
	if !b.done() {
		enough = b.have[b.pos] == bracket
	} else if free && b.option() > 0 {
		enough = !enough
	}
	switch {
	case enough:
		b.mark(string(bracket))
	case i > 0:
		b.mark(", ")
	}
	return enough || b.lost
}

func (b *jsonWriter) array(j *jsonSchema, h uint64, depth, n int) {
	b.mark("[")
	for i := 0; !b.closes(']', i >= n, isNull(j.Items), i); i++ {
		if isNull(j.Items) {
			b.any(mix(h, uint64(i)), depth+1)
		} else {
			b.schema(j.Items, mix(h, uint64(i)), depth+1)
		}
	}
}

func (b *jsonWriter) object(j *jsonSchema, h uint64, depth int) {
	var names []string // those to come
	for n := range j.Properties {
		names = append(names, n)
	}
	slices.Sort(names)
	b.mark("{")
	foreign := len(names) == 0
	for i := 0; !b.closes('}', foreign || len(names) == 0, foreign, i); i++ {
		n := b.name(names)
		b.mark(": ")
		if raw, ok := j.Properties[n]; ok {
			b.schema(raw, hashString(h, n), depth+1)
		} else {
			foreign = true
			b.any(hashString(h, n), depth+1)
		}
		names = slices.DeleteFunc(names, func(s string) bool { return s == n })
	}
}

// name writes the first of names, or reads the name that stands there.
func (b *jsonWriter) name(names []string) string {
	b.skip()
	left := b.have[b.pos:]
	if n, whole := scanScalar(left); !b.done() && whole {
		var s string
		b.lost = b.lost || json.Unmarshal([]byte(left[:n]), &s) != nil
		b.pos += n
		return s
	}
	b.pos = len(b.have)
	for _, n := range names {
		if q := string(encode(n)); strings.HasPrefix(q, left) {
			b.put(q[len(left):], sureText)
			return n
		}
	}
	if left == "" {
		b.put(`"`, sureOther)
	}
	b.put(`"`, sureOther)
	return ""
}

func (b *jsonWriter) scalar(j *jsonSchema, v, h uint64) {
	base := 0
	if j.Minimum != nil {
		base = int(*j.Minimum)
	}
	switch j.kind() {
	case "integer":
		b.value(strconv.Itoa(base+int(v%100)), h)
	case "number":
		b.value(strconv.Itoa(base+int(v%100))+"."+strconv.Itoa(int(v>>32%9)+1), h)
	case "boolean":
		b.value(strconv.FormatBool(v&1 == 0), h)
	case "null":
		b.value("null", h)
	default:
		nouns, adjs := b.tok.byClass[clsNoun], b.tok.byClass[clsAdj]
		text := b.tok.pieces[adjs[v%uint64(len(adjs))]] + b.tok.pieces[nouns[v>>16%uint64(len(nouns))]]
		b.value(`"`+strings.TrimSpace(text)+`"`, h)
	}
}
