package openai

import (
	"fmt"
	"strconv"
	"strings"
)

func readMinTokens(s *scanner, v int) {
	s.req.MinTokens = v > 0
	s.req.Penalties = s.req.Penalties || v > 0
}

func readModel(s *scanner, name string) (Span, *RequestError) {
	raw, at, err := s.read(name, "a string", '"')
	if err == nil && raw != nil {
		var room [128]byte
		s.req.Model = string(unquote(room[:0], raw))
		if s.req.Model == "" {
			return at, badField(name, "missing_required_parameter", "You must provide a model.")
		}
	}
	return at, err
}

func readN(s *scanner, name string) (Span, *RequestError) {
	raw, at, err := s.read(name, "an integer", '0')
	if err != nil || raw == nil {
		return at, err
	}
	v, err := s.integer(name, raw, 1, s.lim.N)
	if err == nil {
		s.req.N = max(s.req.N, v)
	}
	return at, err
}

func readSeed(s *scanner, name string) (Span, *RequestError) {
	raw, at, err := s.read(name, "an integer", '0')
	if err != nil || raw == nil {
		return at, err
	}
	if _, perr := strconv.ParseInt(string(raw), 10, 64); perr != nil {
		return at, badField(name, "invalid_type", "%s must be an integer of 64 bits, but is %s.", name, clip(string(raw), longestNumber))
	}
	s.req.HasSeed = true
	return at, nil
}

func readStop(s *scanner, name string) (Span, *RequestError) {
	raw, at, err := s.read(name, "a string or an array of strings", '"', '[')
	if err != nil || raw == nil {
		return at, err
	}
	if raw[0] == '"' {
		s.req.Stop = appendStop(nil, raw)
		return at, nil
	}
	var in cursor
	in.reset(raw)
	for range in.array() {
		if in.kind() != '"' {
			return at, wrongType(name, "an array of strings", in.kind())
		}
		v, _ := in.value()
		if s.req.Stop = appendStop(s.req.Stop, v); len(s.req.Stop) > s.lim.Stops {
			return at, badField(name, "invalid_value", "stop has more than %d strings.", s.lim.Stops)
		}
	}
	return at, nil
}

func appendStop(stops []string, raw []byte) []string {
	if text := string(unquote(nil, raw)); text != "" {
		stops = append(stops, text)
	}
	return stops
}

func readStreamOptions(s *scanner, name string) (Span, *RequestError) {
	raw, at, err := s.read(name, "an object", '{')
	if err != nil || raw == nil {
		return at, err
	}
	var in cursor
	in.reset(raw)
	for field := range in.object() {
		requested, each := string(field) == "include_usage", string(field) == "continuous_usage_stats"
		k := in.kind()
		v, _ := in.value()
		if each && string(v) == "true" {
			s.req.UsageSoFar, s.req.shows = true, true
		}
		if !requested || k == 'n' {
			continue
		}
		if k != 't' && k != 'f' {
			return at, wrongType("stream_options.include_usage", "a boolean", k)
		}
		s.req.IncludeUsage = string(v) == "true"
	}
	return at, nil
}

func readLogprobs(s *scanner, name string) (Span, *RequestError) {
	if s.req.Kind == Completion {
		return whole(func(s *scanner, _ int) { s.req.Logprobs = true })(s, name)
	}
	return flag(func(r *Request, v bool) { r.Logprobs = r.Logprobs || v })(s, name)
}

func readLogitBias(s *scanner, name string) (Span, *RequestError) {
	raw, at, err := s.read(name, "an object", '{')
	if err != nil || raw == nil {
		return at, err
	}
	var in cursor
	in.reset(raw)
	entries := 0
	for range in.object() {
		v, _ := in.value()
		bias, perr := strconv.ParseFloat(string(v), 64)
		switch {
		case perr != nil || bias < -100 || bias > 100:
			return at, badField(name, "invalid_value", "%s must map token ids to numbers between -100 and 100, but holds %s.", name, clip(string(v), longestNumber))
		case entries == s.lim.LogitBias:
			return at, badField(name, "invalid_value", "%s has more than %d entries.", name, s.lim.LogitBias)
		}
		entries++
	}
	s.req.Penalties = s.req.Penalties || entries > 0
	return at, nil
}

func readToolChoice(s *scanner, name string) (Span, *RequestError) {
	raw, at, err := s.read(name, "a string or an object", '"', '{')
	if err == nil {
		s.req.noTools = string(raw) == `"none"`
	}
	return at, err
}

func readFormat(s *scanner, name string) (Span, *RequestError) {
	raw, at, err := s.read(name, "an object", '{')
	if err != nil || raw == nil {
		return at, err
	}
	if len(raw) > s.lim.Grammar {
		return at, badField(name, "invalid_value", "%s is larger than %d bytes.", name, s.lim.Grammar)
	}
	var in cursor
	in.reset(raw)
	for field := range in.object() {
		isType := string(field) == "type"
		v, _ := in.value()
		if isType && string(v) != `"text"` {
			s.req.Structured = true
			s.req.JSON = s.req.JSON || strings.HasPrefix(string(v), `"json`)
		}
	}
	return at, nil
}

func readStructured(s *scanner, name string) (Span, *RequestError) {
	raw, at, err := s.read(name, "an object", '{')
	if err != nil || raw == nil {
		return at, err
	}
	if len(raw) > s.lim.Grammar {
		return at, badField(name, "invalid_value", "%s is larger than %d bytes.", name, s.lim.Grammar)
	}
	s.req.Structured = true
	var in cursor
	in.reset(raw)
	for field := range in.object() {
		s.req.JSON = s.req.JSON || strings.HasPrefix(string(field), "json")
		in.skip()
	}
	return at, nil
}

// readGrammar reads a field that constrains the answer's form; engines and versions have different ones.
func readGrammar(s *scanner, name string) (Span, *RequestError) {
	raw, at := s.cur.value()
	if s.cur.err == nil && len(raw) > s.lim.Grammar {
		return at, badField(name, "invalid_value", "%s is larger than %d bytes.", name, s.lim.Grammar)
	}
	s.req.Structured = true
	s.req.JSON = s.req.JSON || strings.Contains(name, "json")
	return at, nil
}

func readPrompt(s *scanner, name string) (Span, *RequestError) {
	raw, at, err := s.read(name, "a string or an array", '"', '[')
	if err != nil || raw == nil {
		return at, err
	}
	if raw[0] == '"' {
		s.req.SinglePlain, s.req.prompts.n, s.req.PromptBytes = true, 1, len(raw)-2
		return at, nil
	}
	list, odd := readPrompts(raw)
	if odd != 0 {
		return at, wrongType(name, "a list of strings, of token ids, or of lists of token ids", odd)
	}
	if s.req.prompts = list; list.ids {
		s.req.PromptTokens = list.size
	} else {
		s.req.PromptBytes = list.size
	}
	return at, nil
}

func readMessages(s *scanner, name string) (Span, *RequestError) {
	if k := s.cur.kind(); k != '[' && k != 0 {
		return Span{}, wrongType(name, "an array of messages", k)
	}
	if !s.cur.enter('[') {
		s.cur.token()
		return Span{}, nil
	}
	start := s.cur.last - 1
	s.req.system = Span{start + 1, start + 1}
	count := 0
	for s.cur.more() {
		if count >= s.lim.Messages {
			return Span{}, badField(name, "invalid_value", "There are more than %d messages.", s.lim.Messages)
		}
		if err := s.message(count); err != nil {
			return Span{}, err
		}
		count++
	}
	if count == 0 && s.cur.err == nil {
		return Span{}, badField(name, "invalid_value", "messages must hold at least one message.")
	}
	s.req.messages = Span{start, s.cur.last}
	return s.req.messages, nil
}

// message reads one message: its role is required, its content is text or parts.
func (s *scanner) message(i int) *RequestError {
	if k := s.cur.kind(); k != '{' && k != 0 {
		return wrongType(fmt.Sprintf("messages[%d]", i), "an object", k)
	}
	role, system := false, false
	for name := range s.cur.object() {
		switch string(name) {
		case "role":
			if k := s.cur.kind(); k != '"' && k != 0 {
				return wrongType(fmt.Sprintf("messages[%d].role", i), "a string", k)
			}
			role = true
			raw, _ := s.cur.value()
			system = string(raw) == `"system"` || string(raw) == `"developer"`
			s.req.AnswerBegun = string(raw) == `"assistant"`
		case "content":
			if err := s.readContent(i); err != nil {
				return err
			}
		default:
			start := s.cur.last
			if err := s.outside(string(name)); err != nil {
				return err
			}
			at := s.since(start)
			s.req.PromptBytes += at.End - at.Start
		}
	}
	if !role && s.cur.err == nil {
		return badField(fmt.Sprintf("messages[%d].role", i), "missing_required_parameter", "messages[%d] has no role.", i)
	}
	s.lead(system)
	return nil
}

// lead records the end of the leading system messages, and the first message after them.
func (s *scanner) lead(system bool) {
	end := s.cur.last
	switch r := s.req; {
	case r.first.End > 0:
	case system:
		r.system.End = end
	default:
		r.first = Span{r.system.End, end}
	}
}

// readContent reads the content of a message: text or parts.
func (s *scanner) readContent(i int) *RequestError {
	switch k := s.cur.kind(); k {
	case '"':
		raw, _ := s.cur.value()
		s.req.PromptBytes += max(len(raw)-2, 0)
	case 'n':
		s.cur.skip()
	case '[':
		return s.parts(i)
	case 0:
		s.cur.token()
	default:
		return wrongType(fmt.Sprintf("messages[%d].content", i), "a string, null or an array of parts", k)
	}
	return nil
}

// parts reads a content array: the walker checks each part.
func (s *scanner) parts(i int) *RequestError {
	start := s.cur.last
	for range s.cur.array() {
		if k := s.cur.kind(); k != '{' && k != 0 {
			return wrongType(fmt.Sprintf("messages[%d].content", i), "an array of objects", k)
		}
		if err := s.object(true); err != nil {
			return err
		}
	}
	s.req.PromptBytes += s.cur.last - start
	return nil
}

// readTools reads the definitions of tools.
func readTools(s *scanner, name string) (Span, *RequestError) {
	if k := s.cur.kind(); k != '[' && k != 0 {
		return Span{}, wrongType(name, "an array", k)
	}
	start := s.cur.last
	s.schemas = true
	defer func() { s.schemas = false }()
	for range s.cur.array() {
		if k := s.cur.kind(); k != '{' && k != 0 {
			return Span{}, badField(name, "invalid_type", "%s must hold only elements that are %s.", name, kindWord('{'))
		}
		if err := s.object(false); err != nil {
			return Span{}, err
		}
		s.req.tools = true
	}
	at := s.since(start)
	if at.End-at.Start > s.lim.Grammar {
		return at, badField(name, "invalid_value", "%s is larger than %d bytes.", name, s.lim.Grammar)
	}
	return at, nil
}
