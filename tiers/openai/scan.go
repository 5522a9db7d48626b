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
	s := scanner{req: r, walker: walker{cur: c, body: body, lim: lim}}
	if err := s.scan(); err != nil {
		return nil, depthFirst(err, body, lim)
	}
	return r, nil
}

// depthFirst returns the error of a body that is refused: that it nests too deep, if it does, else err.
func depthFirst(err *RequestError, body []byte, lim Limits) *RequestError {
	if at := depthOffset(body, lim.Depth); at >= 0 {
		return badField("", "too_deep", "The request body nests deeper than %d levels at byte %d.", lim.Depth, at)
	}
	return err
}

func (s *scanner) scan() *RequestError {
	if err := s.members(); err != nil {
		return err
	}
	if s.cur.end(); s.cur.err != nil {
		return syntaxError(s.req.Body, s.cur.err)
	}
	return s.check()
}

// members calls the reader of each top-level member.
func (s *scanner) members() *RequestError {
	s.maxCompletion = -1
	if !s.cur.enter('{') {
		if s.cur.err == nil && s.cur.kind() != 0 {
			return badField("", "invalid_json", "The request body must be a JSON object.")
		}
		s.cur.token()
		return syntaxError(s.req.Body, s.cur.err)
	}
	for s.cur.more() {
		if len(s.req.members) >= s.lim.Fields {
			return badField("", "too_many_fields", "The request has more than %d fields.", s.lim.Fields)
		}
		if err := s.member(); err != nil {
			return err
		}
	}
	if s.cur.err != nil {
		return syntaxError(s.req.Body, s.cur.err)
	}
	return nil
}

func (s *scanner) member() *RequestError {
	quoted, at := s.cur.value()
	if s.cur.err != nil {
		return syntaxError(s.req.Body, s.cur.err)
	}
	name := nameOf(quoted)
	read, err := readerOf(name, s.req.Kind)
	if err != nil {
		return err
	}
	m := member{name: name}
	if read == nil || (s.cur.kind() == 'n' && !needed(name)) { // null means absent in all other fields
		m.drop, m.value, err = s.field(name, fields.Lookup(name))
	} else {
		m.value, err = read(s, name)
	}
	switch {
	case s.cur.err != nil:
		return syntaxError(s.req.Body, s.cur.err)
	case err != nil:
		return err
	}
	m.whole = Span{at.Start, m.value.End}
	s.req.members = append(s.req.members, m)
	return nil
}

// needed are the fields that may not be null.
func needed(name string) bool { return name == "model" || name == "messages" || name == "prompt" }

// check checks conditions between fields.
func (s *scanner) check() *RequestError {
	r := s.req
	if s.maxCompletion >= 0 && r.Kind == Chat { // vLLM's completions do not have it
		r.MaxTokens = s.maxCompletion
	}
	if !r.has("model") {
		return badField("model", "missing_required_parameter", "You must provide a model.")
	}
	if err := s.allowed(r.Model); err != nil {
		return err
	}
	s.extras()
	input := "messages"
	if r.Kind == Completion {
		input = "prompt"
	}
	if !r.has(input) {
		return badField(input, "missing_required_parameter", "You must provide %s.", input)
	}
	if n := r.Answers(); n > s.lim.Answers {
		return tooMany(input, "answers (those to each of several prompts together)", n, s.lim.Answers)
	}
	r.Media = s.special
	if r.Kind == Chat {
		r.SinglePlain = !r.Media
	}
	r.Tools = r.tools && !r.noTools
	if r.PromptTokens == 0 {
		r.PromptTokens = EstimateTokens(max(r.PromptBytes, 1))
	}
	return nil
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
