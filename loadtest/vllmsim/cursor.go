package vllmsim

import "unicode/utf8"

// cursor carries what the model needs of a context, so that the next distribution costs the same at any length.
type cursor struct {
	tok      *Tokenizer
	all      uint64 // hash of every id
	anchor   uint64 // all, at the last header's end
	head     uint64 // hash of the first 16 ids
	anchored bool
	count    int           // ids so far
	since    int           // ids since the anchor
	last     int32         // the id before the next one
	near     uint64        // hash of the last ids, see look
	ring     [window]int32 // those ids, -1 where there is none yet
	pend     [utf8.UTFMax]byte
	npend    int    // bytes in pend: a character that is not complete yet
	voice    *voice // what the model is like in this context, once it was asked

	ctx       []int32  // the prompt, as far as it is known beforehand
	form      *form    // what the request says of the answer after the last header
	assistant bool     // the last header is one of an answer
	shape     *shape   // of an answer that may be a structured one
	answers   []Answer // that the model was given
	turn      int      // answers that have begun

	sentences *sentences // of the model; nil: it has none
	at        int32      // the node of sentences
}

const (
	hashSeed = 0x5eed
	nearBase = 0x9e3779b97f4a7c15
)

// nearGone is nearBase to the power of window: the factor of the id that leaves the window.
var nearGone = func() uint64 {
	p := uint64(1)
	for range window {
		p *= nearBase
	}
	return p
}()

// newCursor stands at the beginning of a context.
func (m *Model) newCursor(ctx []int32) cursor {
	c := cursor{tok: m.tok, ctx: ctx, answers: m.answers, sentences: m.sentences, at: noSentence, all: hashSeed, head: hashSeed, last: tokBOS}
	for i := range c.ring {
		c.ring[i] = -1
	}
	return c
}

// cursorAt reads a context. Only its last ids are looked at closely.
func (m *Model) cursorAt(ctx []int32) cursor {
	c := m.newCursor(ctx)
	for _, id := range ctx[:max(0, len(ctx)-window)] {
		c.fold(id)
	}
	for _, id := range ctx[max(0, len(ctx)-window):] {
		c.push(id)
	}
	return c
}

func (c *cursor) push(id int32) {
	c.fold(id)
	c.look(id)
}

// fold takes in what an id means in the long run.
func (c *cursor) fold(id int32) {
	c.all = foldID(c.all, id)
	c.count++
	c.since++
	if c.sentences != nil {
		c.at = c.sentences.after(c.at, id, c.tok)
	}
	if c.since == 1 {
		c.opens(id)
	} else if c.shape != nil && !c.shape.push(c.tok, id) {
		c.shape = nil
	}
	if c.count <= 16 {
		c.head = c.all
	}
	if id == tokEndHeader {
		c.anchor, c.anchored, c.since = c.all, true, 0
		c.assistant, c.shape = c.last == c.tok.ids["assistant"], nil
		if c.assistant {
			c.turn++
		}
	}
	c.last = id
}

// look takes in what an id means to the ids right after it. near is a polynomial of the last ids, so that the one that
// leaves the window can be taken out again.
func (c *cursor) look(id int32) {
	gone := &c.ring[c.count%window]
	c.near = (c.near+uint64(id+1))*nearBase - uint64(*gone+1)*nearGone*nearBase
	*gone = id
	if id < firstByte+utf8.RuneSelf || id >= firstPiece {
		c.npend = 0
		return
	}
	c.pushByte(byte(id - firstByte))
}

func (c *cursor) pushByte(b byte) {
	if utf8.RuneStart(b) || c.npend == len(c.pend) {
		c.npend = 0
	}
	c.pend[c.npend] = b
	c.npend++
	if utf8.FullRune(c.pend[:c.npend]) {
		c.npend = 0
	}
}

// key is the long-range part of the context.
func (c *cursor) key() uint64 {
	if c.anchored {
		return mix(c.anchor, 1)
	}
	return mix(c.head, 2)
}

// place is what the draw for the next token depends on besides the seed: the distance to the anchor. Without a header
// it is the distance to the prompt's start and, as the seed then knows nothing of the prompt, what came right before.
func (c *cursor) place() uint64 {
	if c.anchored {
		return uint64(c.since)
	}
	return mix(c.near, uint64(c.since))
}
