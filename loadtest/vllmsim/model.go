package vllmsim

import "math"

const (
	numCands = 16   // explicit candidates per position, before equal ids are merged
	tailMass = 5e-5 // spread evenly over the whole vocabulary
	window   = 8    // ids of near context that a distribution depends on
)

// Model is the seeded pseudo language model. The distribution after a context is a pure function of the model's seed,
// divergence and blindness and of the ids. For the target:
//
//	anchor = hash of all ids up to the last header's end (of the first 16 ids when there is no header)
//	h      = hash(seed, anchor, last 8 ids, ids since the anchor)
//	c_0..c_15 drawn by h from what the grammar lets follow the last token
//	gap    = 3.5..8 mostly; at a fork, with probability 0.02 + 0.3 d^2, (1-d)*2.5 + 0.15..2.65
//	l_0 = 0, l_1 = -gap - 0..0.5, l_i = -gap - 0.5 (i-1) - 0..0.5
//	W(x)   = sum over c_i = x of exp(l_i)
//	P(x)   = (1-5e-5) * W(x) / sum of all W  +  5e-5 / V
//
// where d in (0,1) is the difficulty of the prompt, a hash of the anchor. At the end of a sentence c_15 is the end token,
// and once the answer is as long as it should be, c_0 is, with gap = 3.5..6.5. Without a header there is no start to
// count from: one of 16 sentences ends the answer. After the first byte of a character written in bytes, c_0..c_11 are
// bytes that go on with one of the characters that no piece holds, drawn by h, and the others any continuation bytes.
//
// An answer that has begun as a structured one (see shape.go) goes on as one: P(x) of the token that comes next is then
// given, and what is left is shared by the others as above.
//
// A draft of divergence D multiplies W(x) of the target's r-th candidate by exp(3.4 D d z_r), with z_r normal noise in 64
// steps, and swaps the first two with probability 0.02 D d. Errors are likelier where its own gap is small and where the
// prompt is hard, so its confidence predicts agreement, but not always. D = 0 is exactly the target.
//
// On a share of the prompts, the draft's blindness, it sees nothing coming: there the noisy weights are handed out in the
// target's own order, so that it looks as unsure as ever but agrees; except that, on as many prompts as the noise would
// have led astray, it swaps the first two at one place of the answer, drawn evenly, and now and then after it (see
// blunderOdds).
type Model struct {
	language   uint64 // the seed it was made with
	seed       uint64
	divergence float64
	blind      float64
	answers    []Answer
	sentences  *sentences // instead of the grammar, see [Options]; nil: none
	tok        *Tokenizer
}

// NewModel returns the model of a seed; divergence 0 is the target, more is a draft of it.
func NewModel(seed uint64, divergence float64) *Model { return NewDraft(seed, divergence, 0) }

// NewDraft returns a draft whose confidence says nothing about its errors on the share blind of all prompts. It is
// wrong as often at any blindness.
func NewDraft(seed uint64, divergence, blind float64) *Model {
	return &Model{language: seed, seed: mix(seed, 0x51), divergence: divergence, blind: blind, tok: DefaultTokenizer()}
}

// Next returns the distribution of the token after ctx.
func (m *Model) Next(ctx []int32) Dist {
	c := m.cursorAt(ctx)
	var d Dist
	m.fill(&c, &d)
	return d
}

// difficulty is that of a prompt, in (0, 1).
func (m *Model) difficulty(key uint64) float64 { return unit(mix(m.seed^0xd1ff, key)) }

// readTo takes in what ctx means in the long run.
func (m *Model) readTo(ctx []int32) cursor {
	c := m.newCursor(ctx)
	for _, id := range ctx {
		c.fold(id)
	}
	return c
}

// The weights that candidates start from: exp of a slope by place, and of a quantised 0..-0.5.
var slope, jitter = func() (s [numCands]float64, j [256]float64) {
	for i := range s {
		s[i] = math.Exp(-0.5 * (float64(i) - 1))
	}
	for i := range j {
		j[i] = math.Exp(-0.5 * float64(i) / 256)
	}
	return s, j
}()

// fill computes the distribution after c into d, reusing d's memory. It reports whether the answer is a structured one.
func (m *Model) fill(c *cursor, d *Dist) (structured bool) {
	m.prose(c, d)
	return c.shape != nil && m.shaped(c, d)
}

// prose is fill as if no answer were structured.
func (m *Model) prose(c *cursor, d *Dist) {
	v := m.voiceAt(c)
	h := mix(c.near^v.hash, uint64(c.since))
	var ids [numCands]int32
	var w [numCands]float64
	settled := m.candidates(c, v, h, &ids)
	first := math.Exp(-v.gap(h, settled))
	for i := 0; i < numCands; {
		r := mix(h, uint64(0x10+i))
		for n := min(i+8, numCands); i < n; i++ {
			w[i] = first * slope[i] * jitter[r&0xff]
			r >>= 8
		}
	}
	w[0] = 1
	d.merge(&ids, &w)
	if v.stray > 0 {
		v.perturb(c, h, d)
	}
	d.normalise(m.tok.Size())
}
