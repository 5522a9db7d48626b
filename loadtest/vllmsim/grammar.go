package vllmsim

import (
	"math"
	"strings"
)

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

// spaceOdds is how often, of 1024 nouns, an answer goes on with a space and a character written in bytes.
const spaceOdds = 25

// Lengths of answers: lognormal with a median of 129 tokens and 95 % below 451, those of the public conversation trace
// (Azure 2023: Patel et al., Splitwise, ISCA 2024). An answer ends with the sentence that reaches its length, so the
// drawn one is short of it by what a sentence runs over on average.
const (
	lengthMedian = 129
	lengthSigma  = 0.761 // ln(451/129) / 1.645
	overshoot    = 13
	lengthMost   = 4096
)

// answerLen returns the length in tokens at which an answer to this prompt wants to end.
func (m *Model) answerLen(key uint64) int {
	z := math.Sqrt2 * math.Erfinv(2*unit(mix(m.seed^0x1e4, key))-1)
	n := lengthMedian*math.Exp(lengthSigma*z) - overshoot
	return int(min(max(n, 1), lengthMost)) // an infinite z is one bound or the other
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
		return m.tok.newLine
	}
	if last == tokEOT {
		cls = clsEnd // ignore_eos: another sentence
	}
	options := follow[cls]
	next := options[below(uint32(h), len(options))]
	if cls == clsNoun && h>>54 < spaceOdds {
		next = clsSpace
	}
	pick := uint32(h >> 22)
	switch next {
	case clsByte:
		return firstByte + int32(splitChars[below(pick, len(splitChars))][0])
	case clsNoun:
		// Two of three nouns come from the prompt's own dozen: answers keep to a subject.
		if h&0xffff < 65536*2/3 {
			pick = uint32(mix(m.seed^key, uint64(below(pick, 12))))
		}
	}
	list := m.tok.byClass[next]
	return list[below(pick, len(list))]
}

// below maps 32 random bits to 0 … n−1 (Lemire's multiplication, whose bias is n/2^32).
func below(bits uint32, n int) int { return int(uint64(bits) * uint64(n) >> 32) }

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
