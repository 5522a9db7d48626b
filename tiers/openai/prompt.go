package openai

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

func readMinTokens(s *scanner, v int) {
	s.req.MinTokens = v > 0
	s.req.Penalties = s.req.Penalties || v > 0
}

func readModel(s *scanner, name string) {
	raw := s.read(name, "a string", '"')
	if s.cur.err != nil {
		return
	}
	var room [128]byte
	if s.req.Model = string(unquote(room[:0], raw)); s.req.Model == "" {
		s.bad(name, "missing_required_parameter", "You must provide a model.")
	}
}

func readN(s *scanner, name string) { s.req.N = max(s.req.N, s.integer(name, 1, s.lim.N)) }

func readSeed(s *scanner, name string) {
	raw := s.read(name, "an integer", '0')
	if _, err := strconv.ParseInt(string(raw), 10, 64); err != nil {
		s.bad(name, "invalid_type", "%s must be an integer of 64 bits, but is %s.", name, clip(string(raw), longestNumber))
	}
	s.req.HasSeed = true
}

func readStop(s *scanner, name string) {
	raw := s.read(name, "a string or an array of strings", '"', '[')
	if isText(raw) {
		s.req.Stop = appendStop(nil, raw)
		return
	}
	elements, _ := Elements(raw)
	for _, v := range elements {
		if !isText(v) {
			s.cur.fail(wrongType(name, "an array of strings", jsontext.Value(v).Kind()))
			return
		}
		if s.req.Stop = appendStop(s.req.Stop, v); len(s.req.Stop) > s.lim.Stops {
			s.bad(name, "invalid_value", "stop has more than %d strings.", s.lim.Stops)
		}
	}
}

func appendStop(stops []string, raw []byte) []string {
	if text := string(unquote(nil, raw)); text != "" {
		stops = append(stops, text)
	}
	return stops
}

func readStreamOptions(s *scanner, name string) {
	options, _ := Members(s.read(name, "an object", '{'))
	if string(options["continuous_usage_stats"]) == "true" {
		s.req.UsageSoFar, s.req.shows = true, true
	}
	usage := options["include_usage"]
	if k := jsontext.Value(usage).Kind(); len(usage) > 0 && k != 'n' && k != 't' && k != 'f' {
		s.cur.fail(wrongType("stream_options.include_usage", "a boolean", k))
	}
	s.req.IncludeUsage = string(usage) == "true"
}

func readLogprobs(s *scanner, name string) {
	if s.req.Kind == Completion {
		s.integer(name, 0, s.lim.Tokens)
		s.req.Logprobs = true
		return
	}
	s.req.Logprobs = string(s.read(name, "a boolean", 't', 'f')) == "true" || s.req.Logprobs
}

func readLogitBias(s *scanner, name string) {
	entries := 0
	eachMember(s.read(name, "an object", '{'), func(_, v []byte) {
		if bias, err := strconv.ParseFloat(string(v), 64); err != nil || bias < -100 || bias > 100 {
			s.bad(name, "invalid_value", "%s must map token ids to numbers between -100 and 100, but holds %s.", name, clip(string(v), longestNumber))
		}
		if entries++; entries > s.lim.LogitBias {
			s.bad(name, "invalid_value", "%s has more than %d entries.", name, s.lim.LogitBias)
		}
	})
	s.req.Penalties = s.req.Penalties || entries > 0
}

func readToolChoice(s *scanner, name string) {
	s.req.noTools = string(s.read(name, "a string or an object", '"', '{')) == `"none"`
}

func readFormat(s *scanner, name string) {
	raw := s.read(name, "an object", '{')
	s.bounded(name, raw)
	format, _ := Members(raw)
	if kind := string(format["type"]); kind != "" && kind != `"text"` {
		s.req.Structured = true
		s.req.JSON = s.req.JSON || strings.HasPrefix(kind, `"json`)
	}
}

func readStructured(s *scanner, name string) {
	raw := s.read(name, "an object", '{')
	s.bounded(name, raw)
	s.req.Structured = true
	members, _ := Members(raw)
	for field := range members {
		s.req.JSON = s.req.JSON || strings.HasPrefix(field, "json")
	}
}

// readGrammar reads a field that constrains the answer's form; engines and versions have different ones.
func readGrammar(s *scanner, name string) {
	raw, _ := s.cur.value()
	s.bounded(name, raw)
	s.req.Structured = true
	s.req.JSON = s.req.JSON || strings.Contains(name, "json")
}

func readPrompt(s *scanner, name string) {
	raw := s.read(name, "a string or an array", '"', '[')
	if isText(raw) {
		s.req.SinglePlain, s.req.prompts.n, s.req.PromptBytes = true, 1, len(raw)-2
		return
	}
	list, odd := readPrompts(raw)
	if odd != 0 {
		s.cur.fail(wrongType(name, "a list of strings, of token ids, or of lists of token ids", odd))
	}
	if s.req.prompts = list; list.ids {
		s.req.PromptTokens = list.size
	} else {
		s.req.PromptBytes = list.size
	}
}

func readMessages(s *scanner, name string) {
	if k := s.cur.kind(); k != '[' {
		s.read(name, "an array of messages", '[')
		return
	}
	count := 0
	for i := range s.cur.array() {
		if i == 0 {
			s.req.system = Span{s.cur.last(), s.cur.last()}
		}
		if count++; count > s.lim.Messages {
			s.bad(name, "invalid_value", "There are more than %d messages.", s.lim.Messages)
		}
		s.message(i)
	}
	if count == 0 {
		s.bad(name, "invalid_value", "messages must hold at least one message.")
	}
}

// message reads one message: its role is required, its content is text or parts.
func (s *scanner) message(i int) {
	if k := s.cur.kind(); k != '{' && k != 0 {
		s.cur.fail(wrongType(fmt.Sprintf("messages[%d]", i), "an object", k))
	}
	role, system := false, false
	for name := range s.cur.object() {
		switch string(name) {
		case "role":
			if k := s.cur.kind(); k != '"' && k != 0 {
				s.cur.fail(wrongType(fmt.Sprintf("messages[%d].role", i), "a string", k))
			}
			role = true
			raw, _ := s.cur.value()
			system = string(raw) == `"system"` || string(raw) == `"developer"`
			s.req.AnswerBegun = string(raw) == `"assistant"`
		case "content":
			s.readContent(i)
		default:
			start := s.cur.last()
			if s.outside(string(name)); s.cur.err == nil {
				at := s.since(start)
				s.req.PromptBytes += at.End - at.Start
			}
		}
	}
	if !role {
		s.bad(fmt.Sprintf("messages[%d].role", i), "missing_required_parameter", "messages[%d] has no role.", i)
	}
	s.lead(system)
}

// lead records the end of the leading system messages, and the first message after them.
func (s *scanner) lead(system bool) {
	end := s.cur.last()
	switch r := s.req; {
	case r.first.End > 0:
	case system:
		r.system.End = end
	default:
		r.first = Span{r.system.End, end}
	}
}

// readContent reads the content of a message: text, or parts, each of which the walker checks.
func (s *scanner) readContent(i int) {
	at := func() string { return fmt.Sprintf("messages[%d].content", i) }
	switch k := s.cur.kind(); k {
	case '"':
		raw, _ := s.cur.value()
		s.req.PromptBytes += max(len(raw)-2, 0)
	case '[':
		start := s.cur.last()
		for range s.cur.array() {
			if k := s.cur.kind(); k != '{' && k != 0 {
				s.cur.fail(wrongType(at(), "an array of objects", k))
			}
			s.object(true)
		}
		s.req.PromptBytes += s.cur.last() - start
	case 'n', 0:
		s.cur.skip()
	default:
		s.cur.fail(wrongType(at(), "a string, null or an array of parts", k))
	}
}

// readTools reads the definitions of tools.
func readTools(s *scanner, name string) {
	if k := s.cur.kind(); k != '[' {
		s.read(name, "an array", '[')
		return
	}
	start := s.cur.last()
	s.schemas = true
	for range s.cur.array() {
		if k := s.cur.kind(); k != '{' && k != 0 {
			s.bad(name, "invalid_type", "%s must hold only elements that are %s.", name, kindWord('{'))
		}
		s.object(false)
		s.req.tools = true
	}
	if s.schemas = false; s.cur.err == nil {
		s.bounded(name, s.since(start).Of(s.body))
	}
}
