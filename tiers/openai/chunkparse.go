package openai

import (
	"bytes"
	"fmt"
	"strconv"
)

// Parse parses one event's data. It ignores unknown fields and is strict about JSON. It writes over nulls in data that
// clients would look into. The result is valid until the next call.
func (p *ChunkParser) Parse(data []byte) (*Chunk, error) {
	c := &p.chunk
	c.Reset()
	c.Raw, c.Plain = data, true
	if p.whole != nil {
		p.cur.reset(data)
	} else {
		p.cur.resetLenient(data)
	}
	if k := p.cur.kind(); p.whole == nil && (k == 'n' || k == '[') { // null or [] is a sign of life
		for range p.cur.array() {
			p.cur.fail(errNotChunk)
		}
	} else {
		p.expectObject()
		for name := range p.cur.object() {
			p.field(name)
		}
	}
	c.Close = p.cur.last - 1
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
			if p.whole == nil && p.absent("{}  ") {
				continue
			}
			if c.Choices++; p.whole != nil && c.Choices > 1 {
				p.cur.skip()
				continue
			}
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
	_, at := p.cur.value()
	copy(at.Of(p.cur.data), instead)
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
			p.saysNext()
			if silent = len(name) == len("delta") && p.absent("{}  "); !silent {
				p.delta()
			}
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
		case "matched_stop": // SGLang: the stop string that ended it, or the id of an end
			if p.cur.kind() != '0' {
				p.foreign()
			}
			p.cur.skip()
		case "index":
			raw, _ := p.cur.value()
			if n, err := strconv.Atoi(string(raw)); err == nil {
				index = n
			}
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
	}
}

// saysNext records that a member with content comes next.
func (p *ChunkParser) saysNext() {
	if p.whole != nil {
		p.whole.contentMembers++
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
			if !harmless(raw) && (!calls || !p.whole.readCalls(raw)) {
				p.chunk.Plain = false
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
	if p.cur.kind() != '[' {
		p.cur.skip()
		return into
	}
	if cap(into) == 0 { // the prompt's may be many
		list := p.cur.data[p.cur.at:]
		into = make([]int32, 0, 1+bytes.Count(list[:max(bytes.IndexByte(list, ']'), 0)], []byte{','}))
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

func (p *ChunkParser) usage() (found bool) {
	for key := range p.cur.object() {
		found = true
		prompt, completion := string(key) == "prompt_tokens", string(key) == "completion_tokens"
		raw, _ := p.cur.value()
		if !prompt && !completion {
			continue
		}
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
