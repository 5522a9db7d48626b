package vllmsim

import (
	"cmp"
	"encoding/json"
	"slices"
)

// shape is an answer as long as it may be a structured one: JSON, a tool call, one of several texts. The language knows
// such answers as well as prose. It sees from the ids that the answer of the assistant (from the header and its blank
// line on) has begun with { or the python tag, and what comes next is then what the model itself would write there:
//
//   - a call of the tools that the prompt's template lists, and where tools may be called (tool_choice auto), the call
//     itself is as likely as it was;
//   - JSON that the request's own fields describe (response_format, structured_outputs), in a request that scores as in
//     one that generates;
//   - any other JSON, as for a json_object.
//
// So a gateway that verifies structured drafts may rely on a draft's own tokens being scored as they would have been
// generated, up to the first one that the target would not have written, if it sends the fields along (vLLM lets them
// constrain the generated token only; here they stand for the words about the format that a real prompt would hold).
// From that one on the answer is prose to the model. Answers without a header are never seen as structured. Whatever the
// temperature, the most probable token is taken.
type shape struct {
	prompt []int32
	form   *form   // what the request says
	answer *Answer // that was given for this place
	ids    []int32
	script []scripted // what the model would write, of which ids are the beginning; nil: not known
	lost   bool       // it would write nothing that begins so
}

// opens begins the shape of an answer, at the blank line of an assistant's header.
func (c *cursor) opens(id int32) {
	c.shape = nil
	if c.since == 1 && c.assistant && id == c.tok.ids["\n\n"] {
		c.shape = &shape{form: c.form, prompt: c.ctx[:min(c.count, len(c.ctx))]}
		if c.turn <= len(c.answers) {
			c.shape.answer = &c.answers[c.turn-1]
		}
	}
}

// push takes in an id of the answer. It reports whether it may still be a structured one.
func (s *shape) push(t *Tokenizer, id int32) bool {
	n := len(s.ids)
	s.ids = append(s.ids, id)
	switch {
	case s.script != nil:
		if n < len(s.script) && s.script[n].id == id {
			return true
		}
		s.script = nil // it may be another one that begins so
		return n == 0 && s.begins(t, id)
	case n == 0:
		return s.begins(t, id)
	}
	return !s.lost
}

// begins reports whether a structured answer may begin with an id.
func (s *shape) begins(t *Tokenizer, id int32) bool {
	return s.form != nil || s.answer != nil || id == tokPythonTag || id >= numSpecial && t.pieces[id][0] == '{'
}

// shaped puts what a structured answer goes on with in front. It reports whether there is any.
func (m *Model) shaped(c *cursor, d *Dist) bool {
	s := c.shape
	if s.script == nil {
		s.plan(m, m.voiceAt(c))
	}
	if len(s.ids) >= len(s.script) {
		return false
	}
	d.force(s.script[len(s.ids)], nil)
	return true
}

// plan finds out what the model would write that begins as the answer does.
func (s *shape) plan(m *Model, v *voice) {
	for _, f := range s.forms(m, v) {
		script := m.answer(v, f)
		if len(script) >= len(s.ids) && slices.EqualFunc(script[:len(s.ids)], s.ids, func(sc scripted, id int32) bool { return sc.id == id }) {
			s.script = script
			return
		}
	}
	s.lost = len(s.ids) > 0
}

// forms are the shapes that the answer may have.
func (s *shape) forms(m *Model, v *voice) (list []*form) {
	if f := cmp.Or(s.given(m.tok), s.form); f != nil {
		return []*form{f}
	}
	if len(s.ids) > 0 && s.ids[0] != tokPythonTag {
		return []*form{{schema: anyObject}}
	}
	tools := m.tok.toolsIn(s.prompt)
	if len(s.ids) == 0 && !v.calls() {
		tools = nil
	}
	for i := range tools {
		list = append(list, &form{tool: &tools[i]})
	}
	return list
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
