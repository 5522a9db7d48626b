package vllmsim

import (
	"encoding/json"
	"slices"
)

// shape is an answer as long as it may be a structured one: JSON, a tool call, one of several texts. The language knows
// such answers as well as prose. It sees from the ids that the answer of the assistant (from the header and its blank
// line on) has begun with {, [ or the python tag, and what comes next is then what a [jsonWriter] would write there:
//
//   - a call of the tools that the prompt's template lists: exactly as generated, and where tools may be called
//     (tool_choice auto), the call itself is as likely as it was;
//   - JSON that the request's own fields describe (response_format, structured_outputs), in a request that scores as in
//     one that generates: exactly as generated;
//   - any other JSON, up to 4 KiB: as generated for a json_object. Other names and enumerated texts, which only a schema could have
//     told, come as a surprise at their first tokens, but what follows them (punctuation, a string, number, word or
//     bracket at a value's start, a string's end) is likely again.
//
// So a gateway that verifies structured drafts may rely on a draft's own tokens being scored at 0.985 where the target
// would have written the same, if it sends the fields along (vLLM lets them constrain the generated token only; here
// they stand for the words about the format that a real prompt would hold). Without them it may rely on this for tool
// calls and json_object. A draft's other value is unlikely where it begins, and the structure after it is likely again.
// Answers without a header are never seen as structured. Whatever the temperature, the most probable token is taken.
type shape struct {
	prompt []int32
	form   *form // what the request says
	call   bool  // begun with the python tag
	text   []byte
	rest   []scripted
	other  []Cand // what may come instead of the first of rest
	at     int
	lost   bool
}

// opens begins the shape of an answer, at the blank line of an assistant's header.
func (c *cursor) opens(id int32) {
	c.shape = nil
	if c.since == 1 && c.assistant && id == c.tok.ids["\n\n"] {
		c.shape = &shape{form: c.form, prompt: c.ctx[:min(c.count, len(c.ctx))]}
	}
}

// push takes in an id of the answer. It reports whether it may still be a structured one.
func (s *shape) push(t *Tokenizer, id int32) bool {
	switch {
	case id == tokPythonTag && len(s.text) == 0 && !s.call:
		s.call = true
	case id < numSpecial:
		return false
	case len(s.text) == 0 && !s.call && s.form == nil && t.pieces[id][0] != '{' && t.pieces[id][0] != '[':
		return false
	default:
		s.text = append(s.text, t.pieces[id]...)
	}
	if s.at < len(s.rest) && s.rest[s.at].id == id {
		s.at++
	} else {
		s.rest, s.at = nil, 0
	}
	return !s.lost
}

// shaped puts what a structured answer goes on with in front. It reports whether there is any.
func (m *Model) shaped(c *cursor, d *Dist) bool {
	s := c.shape
	if s.rest == nil || s.anyJSON() {
		s.plan(m, m.voiceAt(c))
	}
	if s.at >= len(s.rest) {
		return false
	}
	d.force(s.rest[s.at], s.other)
	return true
}

// anyJSON reports whether nothing is known of the JSON: what else may come is then another thing at every token.
func (s *shape) anyJSON() bool { return s.form == nil && !s.call && len(s.text) > 0 }

// maxAnyJSON is how many bytes of JSON that nobody described are followed; reading along is not free.
const maxAnyJSON = 4096

// plan finds out what the model would write from here on.
func (s *shape) plan(m *Model, v *voice) {
	s.rest, s.other, s.at = nil, nil, 0
	begun := s.call || len(s.text) > 0
	switch {
	case s.call || !begun && s.form == nil || s.form != nil && s.form.tool != nil:
		s.planCall(m, v, begun)
	case s.form != nil:
		s.rest = m.jsonWriter(v, string(s.text)).answer(s.form)
	default:
		s.planAny(m, v)
	}
	s.lost = begun && len(s.rest) == 0
}

func (s *shape) planCall(m *Model, v *voice, begun bool) {
	var tools []wireTool
	if s.form != nil && s.form.tool != nil {
		tools = []wireTool{*s.form.tool}
	} else {
		tools = m.tok.toolsIn(s.prompt)
	}
	if len(tools) == 0 || !begun && s.form == nil && !v.calls() {
		return
	}
	for i := range tools {
		if s.rest = m.jsonWriter(v, string(s.text)).answer(&form{tool: &tools[i]}); s.rest != nil {
			break
		}
	}
	if !begun {
		s.rest = append([]scripted{callTag}, s.rest...)
	}
}

// planAny goes on with JSON of which nothing is known.
func (s *shape) planAny(m *Model, v *voice) {
	if len(s.text) > maxAnyJSON {
		return
	}
	f := &form{schema: anyObject}
	if s.text[0] == '[' {
		f.schema = json.RawMessage(`{"type":"array"}`)
	}
	if s.rest = m.jsonWriter(v, string(s.text)).answer(f); s.rest == nil {
		return
	}
	for o := 1; o < len(anyStarts); o++ {
		b := m.jsonWriter(v, string(s.text))
		b.free = o
		out := b.answer(f)
		if out == nil || out[0].id == s.rest[0].id || slices.ContainsFunc(s.other, func(c Cand) bool { return c.ID == out[0].id }) {
			continue
		}
		s.other = append(s.other, Cand{ID: out[0].id})
	}
	if n := float64(len(s.other)); n > 0 {
		s.rest[0].p = sureOther
		for i := range s.other {
			s.other[i].P = (sureText - sureOther) / n
		}
	}
}

// toolsIn reads the tools that the template wrote into a prompt.
func (t *Tokenizer) toolsIn(prompt []int32) []wireTool {
	head := append(t.header([]int32{tokBOS}, "system"), t.Encode(toolsIntro)...)
	if len(prompt) < len(head) || !slices.Equal(prompt[:len(head)], head) {
		return nil
	}
	list := prompt[len(head):]
	var tools []wireTool
	if json.Unmarshal([]byte(t.Decode(list[:max(0, slices.Index(list, tokEOT))], false)), &tools) != nil {
		return nil
	}
	return tools
}
