package openai

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Parse parses one event's data. It ignores unknown fields and is strict about JSON. It writes over nulls in data that
// clients would look into. The result is valid until the next call.
func (p *ChunkParser) Parse(data []byte) (*Chunk, error) {
	if p.repeats(data) {
		return &p.chunk, nil
	}
	p.last, p.texts = append(p.last[:0], data...), 0
	c, err := p.parse(data, false)
	if err != nil || p.texts != 1 || c.HasUsage || len(c.IDs)+len(c.Logprobs) > 0 || !bytes.Equal(p.last, data) {
		p.last = p.last[:0] // it is no pattern of others
	}
	return c, err
}

// repeats takes up a chunk that is the last one but for its text, as most of a stream are: what needs no escapes is no other
// JSON. It reports whether it is one.
func (p *ChunkParser) repeats(data []byte) bool {
	head, tail, grown := p.said.Start, len(p.last)-p.said.End, len(data)-len(p.last)
	if len(p.last) == 0 || len(data) < head+tail || !bytes.HasPrefix(data, p.last[:head]) || !bytes.HasSuffix(data, p.last[p.said.End:]) {
		return false
	}
	text := data[head : len(data)-tail]
	if !utf8.Valid(text) || bytes.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == '"' || c == '\\' }) {
		return false
	}
	c := &p.chunk
	if c.Close += grown; c.Model.Start > head {
		c.Model = Span{c.Model.Start + grown, c.Model.End + grown}
	}
	c.Raw, c.Text = data, append(c.Text[:0], text...)
	p.last, p.said.End = append(p.last[:0], data...), p.said.End+grown
	return true
}

func (p *ChunkParser) parse(data []byte, strict bool) (*Chunk, error) {
	c := &p.chunk
	c.Reset()
	c.Raw, c.Plain = data, true
	p.cur = borrowCursor(data)
	defer p.cur.release()
	if !strict {
		p.cur.resetLenient(data)
	}
	if k := p.cur.kind(); !strict && (k == 'n' || k == '[') { // null or [] is a sign of life
		for range p.cur.array() {
			p.cur.fail(errNotChunk)
		}
	} else {
		p.expectObject()
		for name := range p.cur.object() {
			p.field(name)
		}
	}
	c.Close = p.cur.last() - 1
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
		if p.absent("[]  ") {
			return
		}
		for range p.cur.array() {
			if p.absent("{}  ") {
				continue
			}
			c.Choices++
			p.choice()
		}
	case "usage":
		c.HasUsage = p.usage()
	case "prompt_token_ids":
		p.foreignUnlessJudged()
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

// absent skips a null that is as if it were not there, and writes an empty value of as many bytes in its place: clients
// to whom the chunk is passed on look into it.
func (p *ChunkParser) absent(instead string) bool {
	if p.cur.kind() != 'n' {
		return false
	}
	raw, _ := p.cur.value()
	copy(raw, instead)
	return true
}

// foreign records a member with unknown content, unless it is null.
func (p *ChunkParser) foreign() {
	if p.cur.kind() != 'n' {
		p.chunk.Foreign = true
	}
}

// foreignUnlessJudged is foreign for members that the gateway requests when it judges.
func (p *ChunkParser) foreignUnlessJudged() {
	if !p.Judged {
		p.foreign()
	}
}

func (p *ChunkParser) choice() {
	c := &p.chunk
	index, ended, silent := c.Choices-1, false, false // without an index its position counts
	p.expectObject()
	for name := range p.cur.object() {
		switch string(name) {
		case "delta", "message":
			if silent = len(name) == len("delta") && p.absent("{}  "); !silent {
				p.delta()
			}
		case "text":
			p.text()
		case "finish_reason":
			if raw, _ := p.cur.value(); isText(raw) {
				c.Finish = unquote(c.Finish[:0], raw)
				ended, c.Aborted = true, c.Aborted || string(c.Finish) == "abort"
			}
		case "stop_reason":
			raw, _ := p.cur.value()
			c.Stop = append(c.Stop[:0], raw...)
		case "token_ids":
			p.foreignUnlessJudged()
			if p.LogprobIDs {
				p.cur.skip()
				continue
			}
			c.IDs = p.ids(c.IDs)
		case "prompt_token_ids":
			p.foreignUnlessJudged()
			c.PromptIDs = p.ids(c.PromptIDs)
		case "logprobs":
			p.foreignUnlessJudged()
			p.logprobs()
		case "matched_stop": // SGLang's stop_reason for stop strings; a number may also be the id of an ordinary end
			if raw, _ := p.cur.value(); isText(raw) {
				c.Stop = append(c.Stop[:0], raw...)
			} else if !harmless(raw) && jsontext.Value(raw).Kind() != '0' {
				c.Foreign = true
			}
		case "index":
			index = p.index(index, 1<<16) // clients keep a list of them
			c.Plain = c.Plain && index == 0
		default:
			p.foreign()
			p.cur.skip()
		}
	}
	switch {
	case ended:
		c.Ended = append(c.Ended, index)
	case silent:
		c.Choices-- // it says nothing
		return
	}
	c.Begun = append(c.Begun, index)
}

// index reads an index below maximum; another value than a number leaves it as it is.
func (p *ChunkParser) index(index, maximum int) int {
	isNumber := p.cur.kind() == '0'
	raw, _ := p.cur.value()
	if !isNumber || p.cur.err != nil {
		return index
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 || n >= maximum {
		p.cur.fail(fmt.Errorf("index %s: %w", clip(string(raw), longestNumber), errNotChunk))
	}
	return n
}

func (p *ChunkParser) text() {
	if raw, at := p.cur.value(); isText(raw) {
		p.chunk.Text = unquote(p.chunk.Text, raw)
		p.said, p.texts = Span{at.Start + 1, at.End - 1}, p.texts+1
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
		case "tool_calls":
			p.calls()
		default:
			raw, _ := p.cur.value()
			p.chunk.Plain = p.chunk.Plain && harmless(raw)
		}
	}
}

// calls checks the indexes of calls in a stream: clients keep a list of them, too.
func (p *ChunkParser) calls() {
	for range p.cur.array() {
		p.chunk.Plain = false
		for name := range p.cur.object() {
			if string(name) == "index" {
				p.index(0, maxCalls)
			} else {
				p.cur.skip()
			}
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
		into = p.addID(into, raw)
	}
	return into
}

// addID appends the id of a token.
func (p *ChunkParser) addID(into []int32, raw []byte) []int32 {
	id, err := strconv.ParseInt(string(raw), 10, 32)
	if err != nil && p.cur.err == nil {
		p.cur.fail(fmt.Errorf("token id %s: %w", clip(string(raw), longestNumber), errNotChunk))
	}
	return append(into, int32(id))
}

// usage reads the counts of a usage. Where it has a number that can be no count, a 0 takes its place.
func (p *ChunkParser) usage() (found bool) {
	c := &p.chunk
	for key := range p.cur.object() {
		found = true
		switch string(key) {
		case "prompt_tokens":
			c.Usage.Prompt, c.Counts[0] = p.count()
		case "completion_tokens":
			c.Usage.Completion, c.Counts[1] = p.count()
		case "total_tokens":
			_, c.Counts[2] = p.count()
		case "prompt_tokens_details":
			c.Usage.Cached = p.cachedTokens()
		default:
			p.counts()
		}
	}
	return found
}

// cachedTokens reads how much of a prompt an engine has found in its cache.
func (p *ChunkParser) cachedTokens() (n int) {
	if p.cur.kind() != '{' {
		p.counts()
		return 0
	}
	for key := range p.cur.object() {
		if string(key) == "cached_tokens" {
			n, _ = p.count()
			continue
		}
		p.counts()
	}
	return n
}

// counts reads a part of a usage that the gateway does not know.
func (p *ChunkParser) counts() {
	switch p.cur.kind() {
	case '{':
		for range p.cur.object() {
			p.counts()
		}
	case '[':
		for range p.cur.array() {
			p.counts()
		}
	default:
		p.count()
	}
}

// count reads a number, 0 for anything else. One below 0 or above maxTokens becomes 0 where it stands.
func (p *ChunkParser) count() (n int, at Span) {
	if p.cur.kind() != '0' {
		p.cur.skip()
		return 0, Span{}
	}
	raw, at := p.cur.value()
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || v < 0 || v > maxTokens {
		v = 0
		overwrite(raw, 0)
	}
	return int(v), at
}

// overwrite writes a count, or 0 if it has too many digits, in the place of a number.
func overwrite(raw []byte, n int) {
	digits := strconv.Itoa(n)
	if len(digits) > len(raw) {
		digits = "0"
	}
	for i := copy(raw, digits); i < len(raw); i++ {
		raw[i] = ' '
	}
}

// WriteUsage writes counts over larger ones in the JSON of a [Chunk], at the places of its Counts.
func WriteUsage(object []byte, at [3]Span, u Usage) {
	cut := false
	for i, n := range [...]int{u.Prompt, u.Completion, u.Prompt + u.Completion} {
		raw := at[i].Of(object)
		told, err := strconv.ParseFloat(string(bytes.TrimRight(raw, " ")), 64)
		if isTotal := i == 2; err == nil && told > float64(n) && (cut || !isTotal) {
			overwrite(raw, n)
			cut = true
		}
	}
}

// DraftAnswer is a whole answer of a draft backend: not streamed, with logprobs and token ids. It is like one
// chunk. Engines include the token that ends the answer, which has no text. Plain means that its only choice has only text and
// tool calls, all of them understood.
type DraftAnswer struct {
	Chunk
	Calls  []Call
	Finish string // finish_reason, "" while null
	Stop   []byte // stop_reason as raw JSON; nil is null
}

// ParseDraftAnswer parses the body of a draft that was not streamed. It is stricter than [ParseAnswer],
// because the judged text must be what the client will read. logprobIDs is as in [ChunkParser]. The calls do
// not share memory with the body.
func ParseDraftAnswer(body []byte, logprobIDs bool) (DraftAnswer, error) {
	p := ChunkParser{Judged: true, LogprobIDs: logprobIDs}
	c, err := p.parse(body, true)
	if err != nil {
		return DraftAnswer{}, fmt.Errorf("draft: %w", err)
	}
	if n := len(c.topEnd); n != len(c.Logprobs) {
		return DraftAnswer{}, fmt.Errorf("draft: alternatives of %d tokens for %d: %w", n, len(c.Logprobs), errNotChunk)
	}
	a := DraftAnswer{Chunk: *c, Finish: string(c.Finish)}
	a.Plain = false
	var in Reply
	if json.Unmarshal(body, &in) == nil && len(in.Choices) == 1 {
		if !in.Choices[0].saysOnce() {
			return DraftAnswer{}, fmt.Errorf("draft: a choice says two things, or none: %w", errNotChunk)
		}
		said, err := in.Choices[0].read()
		a.Calls, a.Stop = said.Calls, said.Stop
		a.Plain = err == nil && said.As == ""
	}
	return a, nil
}

// Whole returns the draft as an answer that can be written in both forms, [Framer.Whole] or
// [Framer.WholeStream]. For an answer that is Plain and not Foreign, it is complete for the client: it omits
// only what was requested for judging. It shares the draft's memory.
func (a *DraftAnswer) Whole(kind Kind) *Whole {
	c := Choice{Text: a.Text, Calls: a.Calls, Finish: a.Finish, Stop: a.Stop, Null: len(a.Text) == 0 && len(a.Calls) > 0}
	return &Whole{Kind: kind, Choices: []Choice{c}, Usage: a.Usage}
}
