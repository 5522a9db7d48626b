package openai

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Usage is the token count of an answer. Cached are those tokens of the prompt that cost nothing, as
// an answer from a cache tells them; [ChunkParser] does not read them.
type Usage struct{ Prompt, Completion, Cached int }

// Chunk is one event of a streamed answer. Its slices are valid until the next
// Parse.
type Chunk struct {
	Raw     []byte // its JSON as it came; nil where there was none, as in the lab
	Model   Span   // the value of "model", quotes included; empty when absent
	Close   int    // offset of the object's last brace
	Choices int    // choices in this chunk
	Text    []byte // new text of the last choice
	Plain   bool   // nothing but role and text: no tool call, no reasoning
	Foreign bool   // there is more that an answer made anew of Text, Finish and Stop would not have
	Finish  []byte // finish_reason of the last choice, empty while null
	Ended   []int  // indexes of the choices that have a finish_reason
	Aborted bool   // of one of them it is "abort": the engine gave it up
	Stop    []byte // stop_reason as raw JSON

	PromptIDs  []int32
	IDs        []int32
	Logprobs   []float64 // of each new token, in nats
	TokenBytes []int     // how many bytes each new token has; 0 where the backend does not tell

	Usage    Usage
	HasUsage bool
	Fault    *Fault // the event tells of an error

	tops   []float64 // the alternatives' logprobs, in one run
	topEnd []int     // where each token's alternatives end in tops
}

// Top returns the logprobs of token i's most likely alternatives.
func (c *Chunk) Top(i int) []float64 {
	from := 0
	if i > 0 {
		from = c.topEnd[i-1]
	}
	return c.tops[from:c.topEnd[i]]
}

// AddTop adds the alternatives' logprobs of the next token. It is for who makes chunks; parsers do it themselves.
func (c *Chunk) AddTop(logprobs ...float64) {
	c.tops = append(c.tops, logprobs...)
	c.topEnd = append(c.topEnd, len(c.tops))
}

// Reset empties c and keeps its memory.
func (c *Chunk) Reset() {
	*c = Chunk{
		Text: c.Text[:0], Finish: c.Finish[:0], Ended: c.Ended[:0], Stop: c.Stop[:0], PromptIDs: c.PromptIDs[:0], IDs: c.IDs[:0],
		Logprobs: c.Logprobs[:0], TokenBytes: c.TokenBytes[:0], tops: c.tops[:0], topEnd: c.topEnd[:0],
	}
}

// ChunkParser parses the chunks of one stream, reusing its memory.
type ChunkParser struct {
	Judged bool // read logprobs and token ids as well
	NoTop  bool // but not the alternatives' logprobs

	cur   cursor
	chunk Chunk
	whole *wholeDraft // for ParseDraftAnswer alone; see there
}

// errNotChunk is returned for a data event that is JSON but no chunk.
var errNotChunk = errors.New("not an answer chunk")

// Parse reads one event's data. It is lenient about unknown fields and strict
// about JSON. The result is valid until the next call.
func (p *ChunkParser) Parse(data []byte) (*Chunk, error) {
	c := &p.chunk
	c.Reset()
	c.Raw, c.Plain = data, true
	if p.whole != nil {
		p.cur.reset(data)
	} else {
		p.cur.resetLenient(data)
	}
	p.expectObject()
	for name := range p.cur.object() {
		p.field(name)
	}
	c.Close = int(p.cur.dec.InputOffset()) - 1
	p.cur.end()
	if p.cur.err != nil {
		return nil, fmt.Errorf("chunk: %w", p.cur.err)
	}
	return c, nil
}

func (p *ChunkParser) field(name []byte) {
	c := &p.chunk
	switch string(name) {
	case "model":
		_, c.Model = p.cur.value()
	case "choices":
		for range p.cur.array() {
			if c.Choices++; p.whole != nil && c.Choices > 1 {
				p.cur.skip()
				continue
			}
			p.choice()
		}
	case "usage":
		c.HasUsage = p.usage()
	case "prompt_token_ids":
		p.asked()
		c.PromptIDs = p.ids(c.PromptIDs)
	case "error":
		raw, _ := p.cur.value()
		if len(raw) > 0 && raw[0] != 'n' {
			c.Fault = parseFault(raw)
		}
	default:
		if !ofNoAccount(name) {
			p.foreign()
		}
		p.cur.skip()
	}
}

// foreign notes a member that comes next, unless it is null.
func (p *ChunkParser) foreign() {
	if p.cur.kind() != 'n' {
		p.chunk.Foreign = true
	}
}

// asked is foreign for what the gateway asks for where it judges.
func (p *ChunkParser) asked() {
	if !p.Judged {
		p.foreign()
	}
}

// ofNoAccount reports whether a top-level member is about the backend or that one generation, and says nothing of
// the answer.
func ofNoAccount(name []byte) bool {
	switch string(name) {
	case "id", "object", "created", "model", "system_fingerprint", "service_tier", "metrics", "foregate":
		return true
	}
	return false
}

func (p *ChunkParser) choice() {
	c := &p.chunk
	index, ended := c.Choices-1, false // one that names no index is known by its place
	p.expectObject()
	for name := range p.cur.object() {
		switch string(name) {
		case "delta", "message":
			p.saysNext()
			p.delta()
		case "text":
			p.saysNext()
			p.text()
		case "finish_reason":
			if raw, _ := p.cur.value(); len(raw) > 0 && raw[0] == '"' {
				c.Finish = unquote(c.Finish[:0], raw)
				ended, c.Aborted = true, c.Aborted || string(c.Finish) == "abort"
			}
		case "stop_reason":
			raw, _ := p.cur.value()
			c.Stop = append(c.Stop[:0], raw...)
		case "token_ids":
			p.asked()
			c.IDs = p.ids(c.IDs)
		case "prompt_token_ids":
			p.asked()
			c.PromptIDs = p.ids(c.PromptIDs)
		case "logprobs":
			p.asked()
			p.logprobs()
		case "index":
			raw, _ := p.cur.value()
			if n, err := strconv.Atoi(string(raw)); err == nil {
				index = n
			}
		default:
			p.foreign()
			p.cur.skip()
		}
	}
	if ended {
		c.Ended = append(c.Ended, index)
	}
}

// expectObject marks the chunk as malformed unless an object comes next.
func (p *ChunkParser) expectObject() {
	if p.cur.kind() != '{' {
		p.cur.token() // surfaces a syntax error, if it is one
		p.cur.fail(errNotChunk)
	}
}

func (p *ChunkParser) text() {
	raw, _ := p.cur.value()
	if len(raw) > 0 && raw[0] == '"' {
		p.chunk.Text = unquote(p.chunk.Text, raw)
	} else if p.whole != nil && !harmless(raw) {
		p.chunk.Plain = false
	}
}

func (p *ChunkParser) delta() {
	p.expectObject()
	for name := range p.cur.object() {
		switch string(name) {
		case "content":
			p.text()
		case "role":
			p.cur.skip()
		default:
			calls := p.whole != nil && string(name) == "tool_calls"
			raw, _ := p.cur.value()
			if harmless(raw) || calls && p.whole.readCalls(raw) {
				continue
			}
			p.chunk.Plain = false
		}
	}
}

// ids reads a list of token ids, or null.
func (p *ChunkParser) ids(into []int32) []int32 {
	if !p.Judged {
		p.cur.skip()
		return into
	}
	for range p.cur.array() {
		raw, _ := p.cur.value()
		id, err := strconv.ParseInt(string(raw), 10, 32)
		if err != nil && p.cur.err == nil {
			p.cur.fail(fmt.Errorf("token id %s: %w", clip(string(raw), longestNumber), errNotChunk))
		}
		into = append(into, int32(id))
	}
	return into
}

func (p *ChunkParser) usage() (found bool) {
	for key := range p.cur.object() {
		found = true
		prompt, completion := string(key) == "prompt_tokens", string(key) == "completion_tokens"
		raw, _ := p.cur.value()
		n, err := strconv.Atoi(string(raw))
		if err != nil || n < 0 {
			continue
		}
		switch {
		case prompt:
			p.chunk.Usage.Prompt = n
		case completion:
			p.chunk.Usage.Completion = n
		}
	}
	return found
}

// Fault is an error as a backend words it.
type Fault struct {
	Status  int    // its "code" as a number, or what its words mean; 0 when they say nothing
	Type    string // vLLM's type, such as BadRequestError
	Message string // clipped and free of addresses and control characters
	Param   string // the field at fault, "" where it does not say; as Message, 128 bytes at most
}

// longestMessage bounds a backend's message before it is shown to a client.
const longestMessage = 512

// longestParam bounds the name of a field, in bytes.
const longestParam = 128

// ParseFault reads an error body in any of the shapes that backends use:
// {"error":{…}}, {"error":"…"}, a flat object, {"detail":…}. It never fails.
func ParseFault(body []byte) *Fault {
	var in cursor
	in.reset(body)
	f := &Fault{}
	for name := range in.object() {
		key := string(name)
		raw, _ := in.value()
		if len(raw) == 0 {
			break
		}
		switch {
		case key == "error" && raw[0] == '{':
			return parseFault(raw)
		case (key == "error" || key == "detail" || key == "message") && raw[0] == '"':
			f.Message = safeMessage(raw)
		default:
			f.member(key, raw)
		}
	}
	return f
}

func parseFault(raw []byte) *Fault {
	f := &Fault{}
	if len(raw) > 0 && raw[0] == '"' {
		f.Message = safeMessage(raw)
		return f
	}
	var in cursor
	in.reset(raw)
	for name := range in.object() {
		key := string(name)
		value, _ := in.value()
		f.member(key, value)
	}
	return f
}

func (f *Fault) member(key string, raw []byte) {
	if len(raw) == 0 {
		return
	}
	switch {
	case key == "message" && raw[0] == '"':
		f.Message = safeMessage(raw)
	case key == "type" && raw[0] == '"':
		f.Type = clip(string(unquote(nil, raw)), 64)
	case key == "param" && raw[0] == '"':
		f.Param = clip(safeMessage(raw), longestParam)
	case key == "code" && raw[0] == '"':
		f.word(string(unquote(nil, raw)))
	case key == "code":
		if status, err := strconv.Atoi(string(raw)); err == nil {
			f.Status = status
		}
	}
	if f.Status == 0 {
		f.word(f.Type)
	}
}

// word derives the status from the words that backends without numeric codes use.
func (f *Fault) word(word string) {
	switch word {
	case "invalid_request_error", "json_parse_error", "BadRequestError":
		f.Status = http.StatusBadRequest
	case "model_not_found", "NotFoundError":
		f.Status = http.StatusNotFound
	}
}

// safeMessage takes out of a backend's message what must not reach a client:
// control characters and memory addresses.
func safeMessage(raw []byte) string {
	text := unquote(nil, raw)
	out := make([]byte, 0, min(len(text), longestMessage))
	for i := 0; i < len(text) && len(out) < longestMessage; i++ {
		if text[i] < 0x20 && text[i] != '\n' {
			continue
		}
		if hex := addressLen(text[i:]); hex > 0 {
			out = append(out, "0x…"...)
			i += hex - 1
			continue
		}
		out = append(out, text[i])
	}
	return string(bytes.ToValidUTF8(out, nil))
}

// addressLen is the length of a hexadecimal address of six digits or more at
// the start of b, else 0.
func addressLen(b []byte) int {
	if len(b) < 8 || b[0] != '0' || b[1] != 'x' {
		return 0
	}
	n := 2
	for n < len(b) && strings.IndexByte("0123456789abcdefABCDEF", b[n]) >= 0 {
		n++
	}
	if n < 8 {
		return 0
	}
	return n
}
