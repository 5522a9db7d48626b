package vllmsim

import (
	"math"
	"slices"
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

// spaceOdds is how many of every thousand entries of a noun's menu, a last incomplete thousand included, are a space and
// then a character written in bytes: 125 of all, or 3 %.
const spaceOdds = 25

// menuSize is the number of entries of a menu: what may follow a token, each entry equally likely.
const menuSize = 4096

// A menu's entry is an id, or stands for one of the nouns that the answer keeps to.
const firstSubject = 0xff00

type menu [menuSize]uint16

// buildMenus draws up what may follow each token: a menu for its class, or its own when it would fuse with something on
// that menu. So an answer's text encodes to the ids that it was made of.
func (t *Tokenizer) buildMenus() {
	var byClass [numClasses]*menu
	var starts [numClasses][]byte
	for c := range byClass {
		byClass[c] = t.classMenu(uint8(c))
		starts[c] = t.starts(byClass[c])
	}
	t.menus = make([]*menu, len(t.pieces))
	for id, cls := range t.class {
		t.menus[id] = byClass[cls]
		if slices.ContainsFunc(starts[cls], func(b byte) bool { return t.extends(int32(id), b) }) {
			t.menus[id] = t.unfused(int32(id), byClass[cls])
		}
	}
	t.menus[tokEOT] = byClass[clsEnd] // ignore_eos: another sentence
	var blank menu
	for i := range blank {
		blank[i] = uint16(t.ids["\n\n"])
	}
	t.menus[tokEndHeader] = &blank
}

// start is the byte that an entry begins with.
func (t *Tokenizer) start(entry uint16) byte {
	if entry >= firstSubject {
		return ' '
	}
	return t.pieces[entry][0]
}

// starts lists the bytes that a menu's entries begin with.
func (t *Tokenizer) starts(m *menu) []byte {
	var seen [256]bool
	var out []byte
	for _, e := range m {
		if b := t.start(e); !seen[b] {
			seen[b] = true
			out = append(out, b)
		}
	}
	return out
}

// classMenu gives each class that may follow its share of the menu.
func (t *Tokenizer) classMenu(cls uint8) *menu {
	var m menu
	options := follow[cls]
	for i := range m {
		k := i * len(options)
		next := options[k/menuSize]
		if cls == clsNoun && i%1000 < spaceOdds {
			next = clsSpace
		}
		m[i] = t.entry(next, uint64(k%menuSize), mix(uint64(cls), uint64(i)))
	}
	return &m
}

// entry picks an entry of a class. Two of three nouns are the prompt's own: answers keep to a subject.
func (t *Tokenizer) entry(cls uint8, at, h uint64) uint16 {
	list := t.byClass[cls]
	switch {
	case cls == clsByte:
		return uint16(firstByte + int32(splitChars[h%uint64(len(splitChars))][0]))
	case cls == clsNoun && h%3 != 0:
		return uint16(firstSubject + h/3%uint64(len(voice{}.subjects)))
	}
	return uint16(list[at*uint64(len(list))/menuSize])
}

// unfused is m without what would fuse with id; m itself if that is all of it.
func (t *Tokenizer) unfused(id int32, m *menu) *menu {
	var left []uint16
	for _, e := range m {
		if !t.extends(id, t.start(e)) {
			left = append(left, e)
		}
	}
	if len(left) == 0 {
		return m
	}
	var own menu
	for i := range own {
		own[i] = left[i*len(left)/menuSize]
	}
	return &own
}

// answerLen returns the length at which an answer to this prompt wants to end. The law is lognormal, and gives answers,
// which go on to the end of their sentence, the median and the 95th percentile of the Azure conversation trace of 2023:
// 129 and 451 tokens. (The trace has a hump near 400, which raises its mean to 211; here it is about 170.)
func (m *Model) answerLen(key uint64) int {
	u := (math.Floor(unit(mix(m.seed^0x1e4, key))*(1<<20)) + 0.5) / (1 << 20)
	return int(min(max(lengthMedian*math.Exp(lengthSpread*normal(u)), 5), maxLength))
}

const (
	lengthMedian = 120
	lengthSpread = 0.79
	maxLength    = 4096
)

// settled reports whether the next token is the end of the answer: at the end of a sentence, when the answer is long
// enough. Without a header there is no start to count from, and every sixteenth sentence is the last.
func (v *voice) settled(c *cursor, h uint64) bool {
	if c.npend > 0 {
		return false
	}
	if !v.anchored {
		return mix(h, 0xe05)%16 == 0
	}
	return c.since >= v.length
}

// candidates draws the explicit candidates from what the grammar allows after the context. It reports whether the
// answer should end here.
func (m *Model) candidates(c *cursor, v *voice, h uint64, ids *[numCands]int32) (settled bool) {
	if c.npend > 0 {
		byteCandidates(c, h, ids)
		return false
	}
	if c.sentences != nil && c.at != noSentence {
		c.sentences.candidates(c.at, v, h, ids)
	} else {
		m.grammatical(c, v, h, ids)
	}
	if m.tok.class[c.last] != clsEnd {
		return false
	}
	if v.settled(c, h) {
		ids[0] = tokEOT
		return true
	}
	ids[numCands-1] = tokEOT
	return false
}

// grammatical draws candidates from what the toy grammar lets follow the last token.
func (m *Model) grammatical(c *cursor, v *voice, h uint64, ids *[numCands]int32) {
	list := m.tok.menus[c.last]
	for i := 0; i < numCands; {
		r := mix(h, uint64(0x100+i))
		for n := min(i+5, numCands); i < n; i++ {
			id := int32(list[r%menuSize])
			if id >= firstSubject {
				id = v.subjects[id-firstSubject]
			}
			ids[i] = id
			r /= menuSize
		}
	}
}

// byteCandidates continues an unfinished character.
func byteCandidates(c *cursor, h uint64, ids *[numCands]int32) {
	open := string(c.pend[:c.npend])
	fits := make([]byte, 0, 32)
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
