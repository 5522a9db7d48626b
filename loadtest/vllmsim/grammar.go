package vllmsim

import "strings"

// follow says which classes may come after a class; a class listed more often comes more often.
var follow = [numClasses][]uint8{
	clsOther:   {clsNoun, clsVerb, clsPrep, clsDet, clsComma, clsEnd},
	clsSpecial: {clsCap0},
	clsByte:    {clsVerb, clsPrep, clsEnd, clsEnd},
	clsDet:     {clsNoun, clsNoun, clsAdj},
	clsAdj:     {clsNoun, clsNoun, clsNoun, clsAdj},
	clsNoun:    {clsVerb, clsVerb, clsVerb, clsPrep, clsPrep, clsEnd, clsEnd, clsComma},
	clsVerb:    {clsDet, clsDet, clsDet, clsPrep, clsAdv},
	clsPrep:    {clsDet, clsDet, clsAdj, clsNoun},
	clsAdv:     {clsDet, clsPrep, clsPrep, clsEnd},
	clsComma:   {clsDet, clsPrep, clsAdv},
	clsEnd:     {clsCap, clsCap, clsCap, clsCap, clsCap, clsNL},
	clsCap:     {clsNoun, clsNoun, clsAdj},
	clsCap0:    {clsNoun, clsNoun, clsAdj},
	clsNL:      {clsCap0, clsCap0, clsCap0, clsBullet},
	clsBullet:  {clsCap0},
	clsSpace:   {clsByte},
}

// spaceOdds is how often, of a thousand nouns, an answer goes on with a space and a character written in bytes.
const spaceOdds = 25

// answerLen returns the length at which an answer to this prompt wants to end: 10 to 210 tokens, a few three times that.
func (m *Model) answerLen(key uint64) int {
	u := unit(mix(m.seed^0x1e4, key))
	n := 10 + 200*u*u
	if unit(mix(m.seed^0x1e5, key)) < 0.1 {
		n *= 3
	}
	return int(n)
}

// settled reports whether the next token is the end of the answer: at the end of a sentence, when the answer is long
// enough. Without a header there is no start to count from, and every eighth sentence is the last.
func (m *Model) settled(c *cursor, h, key uint64) bool {
	last := c.last()
	if m.tok.class[last] != clsEnd || c.npend > 0 {
		return false
	}
	if !c.anchored {
		return unit(mix(h, 0xe05)) < 0.125
	}
	return c.since >= m.answerLen(key)
}

// candidates draws the explicit candidates from what the grammar allows after the context.
func (m *Model) candidates(c *cursor, h uint64, ids *[numCands]int32) {
	if c.npend > 0 {
		m.byteCandidates(c, h, ids)
		return
	}
	last := c.last()
	cls := m.tok.class[last]
	for i := range ids {
		ids[i] = m.draw(last, cls, mix(h, 0x100+uint64(i)), c.key())
	}
	if m.settled(c, h, c.key()) {
		ids[0] = tokEOT
		return
	}
	if cls == clsEnd {
		ids[numCands-1] = tokEOT
	}
}

// draw picks one token that may follow last. Tokens that would fuse with last when encoded again are redrawn, so that
// an answer's text encodes to the ids it was made of.
func (m *Model) draw(last int32, cls uint8, h, key uint64) int32 {
	var id int32
	for range 4 {
		id = m.drawOnce(last, cls, h, key)
		if !m.tok.extends(last, m.tok.pieces[id][0]) {
			break
		}
		h = mix(h, 1)
	}
	return id
}

func (m *Model) drawOnce(last int32, cls uint8, h, key uint64) int32 {
	if last == tokEndHeader {
		return m.tok.ids["\n\n"]
	}
	if last == tokEOT {
		cls = clsEnd // ignore_eos: another sentence
	}
	options := follow[cls]
	next := options[h%uint64(len(options))]
	if cls == clsNoun && h>>40%1000 < spaceOdds {
		next = clsSpace
	}
	pick := h >> 8
	switch next {
	case clsByte:
		return firstByte + int32(splitChars[pick%uint64(len(splitChars))][0])
	case clsNoun:
		// Two of three nouns come from the prompt's own dozen: answers keep to a subject.
		if pick%3 != 0 {
			pick = mix(mix(m.seed, key), pick/3%12)
		}
	}
	list := m.tok.byClass[next]
	return list[pick%uint64(len(list))]
}

// byteCandidates continues an unfinished character.
func (m *Model) byteCandidates(c *cursor, h uint64, ids *[numCands]int32) {
	open := string(c.pend[:c.npend])
	var fits []byte
	for _, s := range splitChars {
		if strings.HasPrefix(s, open) {
			fits = append(fits, s[len(open)])
		}
	}
	for i := range ids {
		r := mix(h, 0x200+uint64(i))
		b := byte(0x80 + r%64)
		if len(fits) > 0 && i < numCands-4 {
			b = fits[r%uint64(len(fits))]
		}
		ids[i] = firstByte + int32(b)
	}
}
