package openai

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
	if size := p.match(&l.shape, data); size == 0 || size != len(data) {
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

// fill parses the value of a hole at the beginning of b. It returns its size, 0 or less if it is not as expected.
func (p *ChunkParser) fill(kind holeKind, b []byte) (size int) {
	c := &p.chunk
	switch kind {
	case holeText, holeString:
		return p.fillString(kind, b)
	case holeLogprob, holeTop:
		size = numberEnd(b, 0)
		switch {
		case size < 0:
		case kind == holeTop:
			c.tops = append(c.tops, nats(b[:size]))
		default:
			c.Logprobs = append(c.Logprobs, nats(b[:size]))
		}
	case holeNumber:
		return numberEnd(b, 0)
	case holeID:
		if size = numberEnd(b, 0); size < 0 || !p.addID(b[:size]) {
			return 0
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
		if !p.NoTop {
			return p.fillList(&p.alternatives, b)
		}
		if size = p.alternatives.skipList(b); size == 0 {
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
		var n int
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
