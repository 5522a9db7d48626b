package vllmsim

import (
	"math"
	"unicode/utf8"
)

const (
	numCands = 16   // explicit candidates per position, before equal ids are merged
	tailMass = 5e-5 // spread evenly over the whole vocabulary
	window   = 8    // ids of near context that a distribution depends on
)

// Cand is one explicit candidate of a distribution.
type Cand struct {
	ID int32
	P  float64
}

// Dist is an exact next-token distribution: explicit candidates, most probable first (equal ones by id), and a tail in
// which all other ids have the same probability.
type Dist struct {
	Top   []Cand
	Tail  float64 // probability of each id that is not in Top
	Vocab int
}

// Prob returns the probability of id.
func (d Dist) Prob(id int32) float64 {
	for i := range d.Top {
		if d.Top[i].ID == id {
			return d.Top[i].P
		}
	}
	return d.Tail
}

// LogProb returns the natural logarithm of the probability of id.
func (d Dist) LogProb(id int32) float64 { return math.Log(d.Prob(id)) }

// Rank returns the number of ids that are at least as probable as id, which is how vLLM counts: 1 is the argmax, and a
// token of the tail, where all are equal, has the last rank.
func (d Dist) Rank(id int32) int {
	p, n := d.Prob(id), 0
	for i := range d.Top {
		if d.Top[i].P >= p {
			n++
		}
	}
	if d.Tail >= p {
		n += d.Vocab - len(d.Top)
	}
	return n
}

// Argmax returns the most probable id, the lowest of equals.
func (d Dist) Argmax() int32 { return d.Top[0].ID }

// Model is the seeded pseudo language model. The distribution after a context is a pure function of seed, divergence,
// blindness and ids:
//
//	anchor = hash of all ids up to the last header's end (of the first 16 ids when there is no header)
//	h      = hash(seed, anchor, last 8 ids, ids since the anchor)
//	c_0..c_15 drawn by h from the grammar's classes that may follow the last token
//	gap    = 3.5..8 mostly; at a fork, with probability 0.02 + 0.3 d^2, (1-d)*2.5 + 0.15..2.65
//	l_0 = 0, l_1 = -gap, l_i = -gap - 0.5 (i-1) - 0..0.5
//	P(x)   = (1-5e-5) * sum over c_i = x of exp(l_i) / sum of all exp(l_j)  +  5e-5 / V
//
// where d in (0,1) is the difficulty of the prompt, a hash of the anchor. A draft of divergence D has
// l_i + 3 D d z_i with z_i noise of variance one, and swaps l_0 and l_1 with probability 0.02 D d: errors are likelier
// where its own gap is small, so its confidence predicts agreement, but not always. D = 0 is exactly the target.
//
// At a share of positions, its blindness B, a draft keeps the first choice that the noise gave it, but shows a gap
// that has nothing to do with it: drawn anew, for a difficulty drawn anew. So it errs as often, and knows it less.
type Model struct {
	seed       uint64
	divergence float64
	blind      float64
	tok        *Tokenizer
}

// NewModel returns the model of a seed; divergence 0 is the target, more is a draft of it.
func NewModel(seed uint64, divergence float64) *Model { return NewDraft(seed, divergence, 0) }

// NewDraft returns a draft whose confidence says the less of its errors the higher blind is, 0 to 1.
func NewDraft(seed uint64, divergence, blind float64) *Model {
	return &Model{seed: mix(seed, 0x51), divergence: divergence, blind: blind, tok: DefaultTokenizer()}
}

// Next returns the distribution of the token after ctx.
func (m *Model) Next(ctx []int32) Dist {
	c := m.cursorAt(ctx)
	var d Dist
	m.fill(&c, &d)
	return d
}

// Difficulty returns the difficulty in (0,1) of the prompt that ctx holds.
func (m *Model) Difficulty(ctx []int32) float64 {
	return m.difficulty(m.anchorOf(ctx))
}

// anchorOf is the long-range part of a context. It is the same for a prompt and for the prompt with a begun answer.
func (m *Model) anchorOf(ctx []int32) uint64 {
	c := m.cursorAt(ctx)
	return c.key()
}

func (m *Model) difficulty(anchor uint64) float64 { return unit(mix(m.seed^0xd1ff, anchor)) }

func (m *Model) cursorAt(ctx []int32) cursor {
	c := newCursor(m.tok)
	for _, id := range ctx {
		c.push(id)
	}
	return c
}

// cursor carries what the model needs of a context, so that the next distribution costs the same at any length.
type cursor struct {
	tok      *Tokenizer
	all      uint64 // hash of every id
	anchor   uint64 // all, at the last header's end
	head     uint64 // hash of the first 16 ids
	anchored bool
	count    int // ids so far
	since    int // ids since the anchor
	ring     [window]int32
	pend     [utf8.UTFMax]byte // bytes of an unfinished character
	npend    int
}

func newCursor(t *Tokenizer) cursor { return cursor{tok: t, all: 0x5eed, head: 0x5eed} }

func (c *cursor) push(id int32) {
	c.all = mix(c.all, uint64(uint32(id)))
	c.ring[c.count%window] = id
	c.count++
	c.since++
	if c.count <= 16 {
		c.head = c.all
	}
	if id == tokEndHeader {
		c.anchor, c.anchored, c.since = c.all, true, 0
	}
	c.pushBytes(id)
}

func (c *cursor) pushBytes(id int32) {
	if id < firstByte+utf8.RuneSelf || id >= firstPiece {
		c.npend = 0
		return
	}
	b := byte(id - firstByte)
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
		return c.anchor
	}
	return c.head
}

func (c *cursor) last() int32 {
	if c.count == 0 {
		return tokBOS
	}
	return c.ring[(c.count-1)%window]
}

// near is the hash of the last ids and of the distance to the anchor.
func (c *cursor) near(h uint64) uint64 {
	h = mix(h, uint64(c.since))
	for i := max(0, c.count-window); i < c.count; i++ {
		h = mix(h, uint64(uint32(c.ring[i%window])))
	}
	return h
}

// fill computes the distribution after c into d, reusing d's memory.
func (m *Model) fill(c *cursor, d *Dist) {
	key := c.key()
	h := c.near(mix(m.seed, key))
	diff := m.difficulty(key)
	var ids [numCands]int32
	var weights [numCands]float64
	m.candidates(c, h, &ids)
	gap := gapOf(h, diff)
	if m.settled(c, h, key) {
		gap = 3.5 + 3*unit(mix(h, 0x5e7)) // the end of an answer is rarely in doubt
	}
	spread(h, gap, &weights)
	if m.divergence > 0 {
		m.perturb(h, key, diff, &weights)
	}
	d.Vocab, d.Tail = m.tok.Size(), tailMass/float64(m.tok.Size())
	d.Top = mergeCands(d.Top[:0], &ids, &weights)
	var sum float64
	for i := range d.Top {
		sum += d.Top[i].P
	}
	scale := (1 - tailMass) / sum
	for i := range d.Top {
		d.Top[i].P = d.Top[i].P*scale + d.Tail
	}
}

func gapOf(h uint64, diff float64) float64 {
	u := unit(mix(h, 0x9a))
	if unit(mix(h, 0xf0)) < 0.02+0.3*diff*diff {
		return 0.15 + 2.5*u + 2.5*(1-diff)
	}
	return 3.5 + 4.5*u
}

// shape holds exp(-0.5 (i-1)), the candidates' common decline, and jitter exp(-0.5 k/256), what is drawn for each.
var (
	shape  [numCands]float64
	jitter [256]float64
)

func init() {
	for i := range shape {
		shape[i] = math.Exp(-0.5 * float64(i-1))
	}
	for k := range jitter {
		jitter[k] = math.Exp(-0.5 * float64(k) / 256)
	}
}

// spread fills in exp(l_i): 1, and what lies a gap below it.
func spread(h uint64, gap float64, weights *[numCands]float64) {
	weights[0] = 1
	step := math.Exp(-gap)
	var bits uint64
	for i := 1; i < numCands; i++ {
		if i%8 == 1 {
			bits = mix(h, 0x10+uint64(i))
		}
		weights[i] = step * shape[i] * jitter[bits&0xff]
		bits >>= 8
	}
}

// perturb turns the target's weights into the draft's.
func (m *Model) perturb(h, key uint64, diff float64, weights *[numCands]float64) {
	stray := m.divergence * diff
	for i := range weights {
		n := mix(h, 0xd0a0+uint64(i))
		// Four uniforms make a bell of variance 1/3; the factor brings it to one.
		s := float64(n&0xffff) + float64(n>>16&0xffff) + float64(n>>32&0xffff) + float64(n>>48)
		weights[i] *= math.Exp(3 * stray * (s/65536 - 2) * math.Sqrt(3))
	}
	if unit(mix(h, 0xbad)) < 0.02*stray {
		weights[0], weights[1] = weights[1], weights[0]
	}
	if m.blind > 0 && unit(mix(h, 0xb11d)) < m.blind {
		best := 0
		for i, w := range weights {
			if w > weights[best] {
				best = i
			}
		}
		shown := mix(h, 0x5807)
		spread(shown, gapOf(shown, unit(mix(m.seed^0x5d1ff, key))), weights)
		weights[0], weights[best] = weights[best], weights[0]
	}
}

// mergeCands sums equal ids and sorts by weight, equal ones by id. Weights come nearly sorted, so insertion is quick.
func mergeCands(dst []Cand, ids *[numCands]int32, weights *[numCands]float64) []Cand {
	var seen uint64 // a bit per id modulo 64: most ids are told apart by it
next:
	for i, id := range ids {
		bit := uint64(1) << (uint32(id) & 63)
		if seen&bit != 0 {
			for j := range dst {
				if dst[j].ID == id {
					dst[j].P += weights[i]
					continue next
				}
			}
		}
		seen |= bit
		dst = append(dst, Cand{ID: id, P: weights[i]})
	}
	for i := 1; i < len(dst); i++ {
		c, j := dst[i], i
		for ; j > 0 && (dst[j-1].P < c.P || dst[j-1].P == c.P && dst[j-1].ID > c.ID); j-- {
			dst[j] = dst[j-1]
		}
		dst[j] = c
	}
	return dst
}
