package openai

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Chunk is one event of a streamed answer. Its slices are valid until the next
// Parse.
type Chunk struct {
	Raw     []byte // its JSON as received; nil if there was none, as in the lab
	Model   Span   // the value of "model", quotes included; empty when absent
	Close   int    // offset of the object's last brace
	Choices int    // choices in this chunk
	Text    []byte // new text of the last choice
	Plain   bool   // only role and text of the first choice: no tool call, no reasoning
	Foreign bool   // it has content that an answer built from Text, Finish and Stop would not have
	Finish  []byte // finish_reason of the last choice, empty while null
	Begun   []int  // indexes of the choices that say something
	Ended   []int  // indexes of the choices that have a finish_reason
	Aborted bool   // of one of them it is "abort": the engine gave it up
	Stop    []byte // stop_reason as raw JSON, or SGLang's matched_stop if it is a string

	PromptIDs  []int32
	IDs        []int32
	Logprobs   []float64 // of each new token, in nats
	TokenBytes []int     // number of bytes of each new token; 0 if the backend does not report it
	Told       TokenText // what the new tokens say of themselves

	Usage    Usage
	HasUsage bool
	Counts   [3]Span // places of its counts: prompt, completion and total; empty when absent
	Fault    *Fault  // the event reports an error

	tops   []float64 // the alternatives' logprobs of all tokens
	topEnd []int     // where each token's part of tops ends
}

// Top returns the logprobs of token i's most likely alternatives.
func (c *Chunk) Top(i int) []float64 {
	from := 0
	if i > 0 {
		from = c.topEnd[i-1]
	}
	return c.tops[from:c.topEnd[i]]
}

// AddTop adds the alternatives' logprobs of the next token, for code that makes chunks without a parser.
func (c *Chunk) AddTop(logprobs ...float64) {
	c.tops = append(c.tops, logprobs...)
	c.topEnd = append(c.topEnd, len(c.tops))
}

// Reset empties c and keeps its memory, except that of the prompt's ids: only the first chunk of a stream has them.
func (c *Chunk) Reset() {
	*c = Chunk{
		Text: c.Text[:0], Finish: c.Finish[:0], Begun: c.Begun[:0], Ended: c.Ended[:0], Stop: c.Stop[:0], IDs: c.IDs[:0],
		Logprobs: c.Logprobs[:0], TokenBytes: c.TokenBytes[:0], tops: c.tops[:0], topEnd: c.topEnd[:0],
		Told: TokenText{Text: c.Told.Text[:0]},
	}
}

// ChunkParser parses the chunks of one stream, reusing its memory.
type ChunkParser struct {
	Judged bool // read logprobs and token ids as well
	NoTop  bool // but not the alternatives' logprobs
	// LogprobIDs says that the ids of tokens are in their entries of logprobs (llama.cpp), and in token_ids none.
	LogprobIDs bool

	cur   *cursor // of the chunk that is being parsed
	chunk Chunk
	said  Span   // its text, between the quotes
	texts int    // how many it has
	last  []byte // its JSON, if the next one may be like it; see repeats
}

// errNotChunk is returned for a data event that is JSON but not a chunk.
var errNotChunk = errors.New("not an answer chunk")

// ofNoAccount reports whether a top-level member describes the backend or this generation, and not the
// answer.
func ofNoAccount(name []byte) bool {
	switch string(name) {
	case "id", "object", "created", "model", "system_fingerprint", "service_tier", "metrics", "foregate",
		"timings",  // llama.cpp
		"metadata": // SGLang: the version of its weights
		return true
	}
	return false
}

// expectObject marks the chunk as malformed unless an object comes next.
func (p *ChunkParser) expectObject() {
	if p.cur.kind() != '{' {
		p.cur.token() // reports a syntax error, if it is one
		p.cur.fail(errNotChunk)
	}
}

// Tokens is how many tokens a chunk adds to an answer that already has before tokens: the listed ones, or the
// growth of the engine's own count. If an engine reports neither, a chunk with text counts as one token,
// which is never too many, and told is false.
func (c *Chunk) Tokens(before int) (n int, reported bool) {
	if n = max(len(c.IDs), len(c.Logprobs)); n > 0 {
		return n, true
	}
	if grown := c.Usage.Completion - before; c.HasUsage && c.Choices > 0 && grown > 0 {
		return min(grown, len(c.Text)+1), true // a token has at least a byte, except the one that ends the answer
	}
	if len(c.Text) > 0 {
		return 1, false
	}
	return 0, true
}

// TokensPast counts the tokens of a chunk that begin after this many bytes of its text, if the bytes are
// reported: an engine that had detected a stop string there would not have made them. It looks for one only where a token
// ends a character.
func (c *Chunk) TokensPast(text int) int {
	from, whole := 0, c.textBytes() == len(c.Text)
	for i, size := range c.TokenBytes {
		if whole && i > 0 && from >= text && (from == len(c.Text) || utf8.RuneStart(c.Text[from])) {
			return len(c.TokenBytes) - i
		}
		from += size
	}
	return 0
}

// textBytes adds up the bytes of the chunk's tokens.
func (c *Chunk) textBytes() (size int) {
	for _, n := range c.TokenBytes {
		size += n
	}
	return size
}

// BytesReported reports whether each of a chunk's tokens has its bytes, an id and a logprob, and the bytes
// together are the chunk's text.
func (c *Chunk) BytesReported() bool {
	n := len(c.TokenBytes)
	return c.textBytes() == len(c.Text) && n == len(c.IDs) && n == len(c.Logprobs)
}

// logprobs reads the logprobs of a choice in either shape: chat's
// {"content":[{"logprob":…,"top_logprobs":[…]}]} or completions'
// {"token_logprobs":[…],"top_logprobs":[{…}]}.
func (p *ChunkParser) logprobs() {
	if !p.Judged {
		p.cur.skip()
		return
	}
	for name := range p.cur.object() {
		switch string(name) {
		case "content":
			for range p.cur.array() {
				p.contentToken()
			}
		case "token_logprobs":
			for range p.cur.array() {
				p.chunk.Logprobs = append(p.chunk.Logprobs, p.nats())
			}
		case "tokens":
			for range p.cur.array() {
				raw, _ := p.cur.value()
				p.chunk.Told.add(raw)
			}
		case "top_logprobs":
			if p.NoTop {
				p.cur.skip()
				continue
			}
			p.topMaps()
		default:
			p.cur.skip()
		}
	}
	for len(p.chunk.topEnd) < len(p.chunk.Logprobs) {
		p.chunk.topEnd = append(p.chunk.topEnd, len(p.chunk.tops))
	}
}

func (p *ChunkParser) contentToken() {
	p.expectObject()
	size, from := 0, len(p.chunk.Told.Text)
	for name := range p.cur.object() {
		switch string(name) {
		case "token":
			raw, _ := p.cur.value()
			if size == 0 {
				p.chunk.Told.Text = appendToken(p.chunk.Told.Text[:from], raw)
			}
		case "bytes":
			if p.cur.kind() != '[' {
				p.cur.skip()
				continue
			}
			told := p.chunk.Told.Text[:from]
			for range p.cur.array() {
				raw, _ := p.cur.value()
				b, _ := strconv.ParseUint(string(raw), 10, 8) // what is no byte agrees with no text
				told = append(told, byte(b))
			}
			if size = len(told) - from; size > 0 { // they are more exact than the token
				p.chunk.Told.Text = told
			}
		case "logprob":
			p.chunk.Logprobs = append(p.chunk.Logprobs, p.nats())
		case "id":
			raw, _ := p.cur.value()
			if p.LogprobIDs && jsontext.Value(raw).Kind() == '0' {
				p.chunk.IDs = p.addID(p.chunk.IDs, raw)
			}
		case "top_logprobs":
			if p.NoTop {
				p.cur.skip()
				continue
			}
			for range p.cur.array() {
				p.alternative()
			}
		default:
			p.cur.skip()
		}
	}
	p.chunk.Told.end(from)
	p.chunk.TokenBytes = append(p.chunk.TokenBytes, size)
	p.chunk.topEnd = append(p.chunk.topEnd, len(p.chunk.tops))
}

func (p *ChunkParser) alternative() {
	p.expectObject()
	for name := range p.cur.object() {
		if string(name) == "logprob" {
			p.chunk.tops = append(p.chunk.tops, p.nats())
		} else {
			p.cur.skip()
		}
	}
}

// topMaps reads completions' list of {token text: logprob}.
func (p *ChunkParser) topMaps() {
	for range p.cur.array() {
		for range p.cur.object() {
			p.chunk.tops = append(p.chunk.tops, p.nats())
		}
		p.chunk.topEnd = append(p.chunk.topEnd, len(p.chunk.tops))
	}
}

// noLogprob replaces a logprob that is missing or not a number: vLLM's own value for minus infinity.
// tiers/accept treats it as a token without one.
const noLogprob = -9999

func (p *ChunkParser) nats() float64 {
	raw, _ := p.cur.value()
	v, is := logprob(raw)
	if !is {
		return noLogprob
	}
	return v
}

// ParseAnswer reads a non-streamed answer, which is like one chunk. Duplicate names are errors: two readers could read two
// answers. It writes over numbers of the usage that can be no counts.
func ParseAnswer(body []byte) (Chunk, error) {
	c, err := new(ChunkParser).parse(body, true)
	if err != nil {
		return Chunk{}, fmt.Errorf("answer: %w", err)
	}
	return *c, nil
}

// Size is how many bytes a chunk says: of its text, or with more than text of all of it.
func (c *Chunk) Size() int {
	if c.Plain {
		return len(c.Text)
	}
	return len(c.Raw)
}
