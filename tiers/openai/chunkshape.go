package openai

// shape is a JSON value with holes. An engine writes the chunks of a stream alike: they differ in few values. A chunk is
// compared with the shape of the one before, and only the values in the holes are parsed (BenchmarkStream). That is as
// strict as parsing all of it: the rest is equal, byte for byte, to what was parsed before. The zero value matches nothing.
type shape struct {
	start int    // offset of the value that is being learned
	text  []byte // the value that was learned; empty: none
	holes []hole // in order
	odd   bool   // the value being learned says something outside of its holes
}

// hole is a value that differs.
type hole struct {
	kind     holeKind
	from, to int // in shape.text
}

// holeKind says what a hole means.
type holeKind uint8

const (
	holeText         holeKind = iota // string: new text
	holeString                       // string without a meaning
	holeInts                         // list of integers without a meaning
	holeOther                        // any value without a meaning that is not harmless
	holeIDs                          // list of token ids
	holeTokens                       // list of tokens with their logprobs
	holeLogprob                      // number: the logprob of a token
	holeSize                         // list of a token's bytes
	holeAlternatives                 // list of the alternatives of a token
	holeTop                          // number: the logprob of an alternative
)

// begin starts to learn the value at an offset.
func (s *shape) begin(start int) {
	s.start, s.text, s.holes, s.odd = start, s.text[:0], s.holes[:0], false
}

// hole records a hole of the value that is being learned.
func (s *shape) hole(kind holeKind, at Span) {
	s.holes = append(s.holes, hole{kind, at.Start - s.start, at.End - s.start})
}

// list is hole for a value that should be a list.
func (s *shape) list(kind holeKind, raw []byte, at Span) {
	if len(raw) > 0 && raw[0] == '[' {
		s.hole(kind, at)
	}
}

// string is hole for a value without a meaning, if it is a string.
func (s *shape) string(raw []byte, at Span) {
	if len(raw) > 0 && raw[0] == '"' {
		s.hole(holeString, at)
	}
}

// number is hole for a value that should be a number. Another value means something, too.
func (s *shape) number(kind holeKind, raw []byte, at Span) {
	if len(raw) == 0 || kindOf[raw[0]] != '0' {
		s.odd = true
		return
	}
	s.hole(kind, at)
}

// end completes the value that is being learned, which the cursor has read, unless it is not valid.
func (s *shape) end(c *cursor) {
	if !s.odd && c.err == nil {
		s.text = append(s.text, c.data[s.start:c.last]...)
	}
}

// learned is what the chunk that was learned says outside of its holes.
type learned struct {
	shape
	plain, foreign bool
	model          Span
	stop           []byte
	tail           int // bytes from its last brace on
}

// learn remembers the shape of the parsed chunk, unless it says something that few chunks say.
func (p *ChunkParser) learn() {
	c, l := &p.chunk, &p.alike
	if c.Choices != 1 || c.HasUsage || c.Fault != nil || len(c.Ended) > 0 || len(c.Finish) > 0 || len(c.PromptIDs) > 0 ||
		len(l.holes) == 0 || c.Model.End > l.holes[0].from {
		return
	}
	l.plain, l.foreign, l.model, l.tail = c.Plain, c.Foreign, c.Model, p.cur.last-c.Close
	l.stop = append(l.stop[:0], c.Stop...)
	l.end(&p.cur)
}

// parseAlike parses a chunk that is like the last one. It reports whether it is; otherwise its result is not valid.
func (p *ChunkParser) parseAlike(data []byte) bool {
	c, l := &p.chunk, &p.alike
	c.Reset()
	if len(l.text) == 0 || p.match(&l.shape, data) != len(data) {
		return false
	}
	c.Raw, c.Choices, c.Plain, c.Foreign, c.Model, c.Close = data, 1, l.plain, l.foreign, l.model, len(data)-l.tail
	c.Stop = append(c.Stop, l.stop...)
	return true
}

// match parses a value like the learned one at the beginning of data. It returns its size, 0 if there is none.
func (p *ChunkParser) match(s *shape, data []byte) (size int) {
	if len(s.text) == 0 {
		return 0
	}
	at, same := 0, 0
	for i := range s.holes {
		h := &s.holes[i]
		if at = skipSame(data, at, s.text[same:h.from]); at < 0 {
			return 0
		}
		n := p.fill(h.kind, data[at:])
		if n <= 0 {
			return 0
		}
		at, same = at+n, h.to
	}
	return max(skipSame(data, at, s.text[same:]), 0)
}

// skipSame returns the offset behind text, which stands in data at an offset; −1 if it does not.
func skipSame(data []byte, at int, text []byte) int {
	end := at + len(text)
	if end > len(data) || string(data[at:end]) != string(text) {
		return -1
	}
	return end
}

// fill parses the value of a hole at the beginning of b. It returns its size, 0 or less if it is not as expected.
func (p *ChunkParser) fill(kind holeKind, b []byte) (size int) {
	c := &p.chunk
	switch kind {
	case holeText, holeString:
		return p.fillString(kind, b)
	case holeLogprob, holeTop:
		size = numberEnd(b, 0)
		switch {
		case size < 0 || kind == holeTop && p.NoTop:
		case kind == holeTop:
			c.tops = append(c.tops, nats(b[:size]))
		default:
			c.Logprobs = append(c.Logprobs, nats(b[:size]))
		}
	case holeIDs:
		c.IDs, size = readIDs(c.IDs, b)
	case holeInts, holeSize:
		n, end := countBytes(b)
		if kind == holeSize {
			p.tokenSize = n
		}
		return end
	case holeTokens:
		return p.fillList(&p.token, b)
	case holeAlternatives:
		if size = p.fillList(&p.alternatives, b); size == 0 && p.NoTop {
			size = p.fillAny(b)
		}
	case holeOther:
		if size = p.fillAny(b); size > 0 && harmless(b[:size]) {
			return 0
		}
	}
	return size
}

func (p *ChunkParser) fillString(kind holeKind, b []byte) (size int) {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	t := readText(b, 1)
	switch {
	case t.end < 0:
		return 0
	case kind == holeString:
	case t.escaped:
		p.chunk.Text = unquote(p.chunk.Text, b[:t.end+1])
	default:
		p.chunk.Text = append(p.chunk.Text, b[1:t.end]...)
	}
	return t.end + 1
}

// fillAny skips a value of any kind.
func (p *ChunkParser) fillAny(b []byte) (size int) {
	p.cur.resetLenient(b)
	p.cur.maxDepth -= maxShapeDepth
	p.cur.skip()
	if p.cur.err != nil {
		return 0
	}
	return p.cur.last
}

// maxShapeDepth is how deep holes are in a chunk, at most.
const maxShapeDepth = 16

// fillList parses a list whose elements have a shape.
func (p *ChunkParser) fillList(s *shape, b []byte) (size int) {
	if len(b) == 0 || b[0] != '[' {
		return 0
	}
	for at := 1; at < len(b); at++ {
		if at == 1 && b[at] == ']' {
			return 2
		}
		n := 0
		if s == &p.token {
			p.tokenSize = 0
			n = p.match(s, b[at:])
			p.chunk.endToken(p.tokenSize)
		} else {
			n = p.match(s, b[at:])
		}
		at += n
		switch {
		case n == 0 || at == len(b):
			return 0
		case b[at] == ']':
			return at + 1
		case b[at] != ',':
			return 0
		}
	}
	return 0
}

// endToken completes a token of so many bytes.
func (c *Chunk) endToken(size int) {
	c.TokenBytes = append(c.TokenBytes, size)
	c.topEnd = append(c.topEnd, len(c.tops))
}

// readIDs appends a list of token ids without white space at the beginning of b, and returns its size; 0 if it is none.
func readIDs(ids []int32, b []byte) (_ []int32, size int) {
	if len(b) < 2 || b[0] != '[' {
		return ids, 0
	}
	if b[1] == ']' {
		return ids, 2
	}
	const most = 9 // digits of an id below any limit
	for at := 1; ; at++ {
		end, id := at, int32(0)
		for ; end < len(b) && end < at+most && b[end]-'0' <= 9; end++ {
			id = id*10 + int32(b[end]-'0')
		}
		if end == at || end == len(b) || b[at] == '0' && end > at+1 {
			return ids, 0
		}
		ids, at = append(ids, id), end
		switch b[end] {
		case ',':
		case ']':
			return ids, end + 1
		default:
			return ids, 0
		}
	}
}

// countBytes counts the elements of a list of integers from 0 to 999 without white space at the beginning of b, and returns
// its size; 0 if it is none.
func countBytes(b []byte) (n, size int) {
	if len(b) < 2 || b[0] != '[' {
		return 0, 0
	}
	if b[1] == ']' {
		return 0, 2
	}
	for at := 1; at < len(b)-1; at++ {
		first := b[at]
		if first-'0' > 9 {
			return 0, 0
		}
		if at++; first != '0' && at < len(b)-1 && b[at]-'0' <= 9 {
			if at++; b[at]-'0' <= 9 {
				at++
			}
		}
		n++
		switch {
		case at == len(b):
			return 0, 0
		case b[at] == ']':
			return n, at + 1
		case b[at] != ',':
			return 0, 0
		}
	}
	return 0, 0
}
