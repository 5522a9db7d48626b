package openai

import (
	"github.com/foregate/foregate/tiers/fields"
)

// Scan parses a request body strictly: exactly one JSON object, no duplicate names, valid UTF-8, bounded
// depth, and correct types and ranges of the fields that the gateway uses. The error is always a
// *RequestError. The request keeps body, which must not change afterwards.
func Scan(kind Kind, body []byte, lim Limits) (*Request, error) {
	both := &struct { // one allocation for a request of a typical number of members
		Request
		room [16]member
	}{}
	r := &both.Request
	*r = Request{Kind: kind, Body: body, MaxTokens: -1, N: 1, Temperature: 1, members: both.room[:0]}
	c := borrowCursor(body)
	defer c.release()
	c.maxDepth = lim.Depth
	s := scanner{req: r, maxCompletion: -1, walker: walker{cur: c, body: body, lim: lim}}
	for s.walker.members(len(r.members)) {
		s.member()
	}
	if s.ended(r.has("model")); c.err == nil {
		s.check()
	}
	if err := s.failed(); err != nil {
		return nil, err
	}
	return r, nil
}

// members reports whether the body has another member, of which so many were read. It enters the body.
func (w *walker) members(read int) bool {
	if len(w.cur.frames) == 0 && !w.cur.enter('{') {
		if w.cur.kind() != 0 {
			w.bad("", "invalid_json", "The request body must be a JSON object.")
		}
		w.cur.token()
		return false
	}
	more := w.cur.more()
	if more && read >= w.lim.Fields {
		w.bad("", "too_many_fields", "The request has more than %d fields.", w.lim.Fields)
		return false
	}
	return more
}

// ended checks that nothing follows the body, and that it has a model.
func (w *walker) ended(model bool) {
	if w.cur.end(); !model {
		w.bad("model", "missing_required_parameter", "You must provide a model.")
	}
}

// member reads one top-level member.
func (s *scanner) member() {
	quoted, at := s.cur.value()
	if s.cur.err != nil {
		return
	}
	m := member{name: nameOf(quoted)}
	read, err := readerOf(m.name, s.req.Kind)
	if err != nil {
		s.cur.fail(err)
		return
	}
	if read == nil || (s.cur.kind() == 'n' && !needed(m.name)) { // null means absent in all other fields
		m.drop, m.value = s.field(m.name, fields.Lookup(m.name))
	} else {
		start := s.cur.last
		if read(s, m.name); s.cur.err == nil {
			m.value = s.since(start)
		}
	}
	m.whole = Span{at.Start, m.value.End}
	s.req.members = append(s.req.members, m)
}

// needed are the fields that may not be null.
func needed(name string) bool { return name == "model" || name == "messages" || name == "prompt" }

// check checks conditions between fields.
func (s *scanner) check() {
	r := s.req
	if s.maxCompletion >= 0 && r.Kind == Chat { // vLLM's completions do not have it
		r.MaxTokens = s.maxCompletion
	}
	s.allowed(r.Model)
	s.extras()
	input := "messages"
	if r.Kind == Completion {
		input = "prompt"
	}
	if !r.has(input) {
		s.bad(input, "missing_required_parameter", "You must provide %s.", input)
	}
	if n := r.Answers(); n > s.lim.Answers {
		s.tooMany(input, "answers (those to each of several prompts together)", n, s.lim.Answers)
	}
	r.Media = s.special
	if r.Kind == Chat {
		r.SinglePlain = !r.Media
	}
	r.Tools = r.tools && !r.noTools
	if r.PromptTokens == 0 {
		r.PromptTokens = EstimateTokens(max(r.PromptBytes, 1))
	}
}

// extras records fields that only the target can serve.
func (s *scanner) extras() {
	for _, m := range s.req.members {
		if m.drop || m.name == fields.Kwargs && s.req.onlyTurnsThinkingOff(m.value) {
			continue
		}
		if f := fields.Lookup(m.name); f.Verdict == fields.Refused || f.Verdict == fields.Target {
			s.req.Extras = true
			s.req.shows = s.req.shows || !f.Prompt
		}
	}
}
