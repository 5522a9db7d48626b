package vllmsim

import (
	"cmp"
	"math"
	"slices"
)

// voice is what a model is like in all of a conversation's turn: what follows from the anchor alone.
type voice struct {
	key      uint64
	hash     uint64
	fork     float64   // how often the next token is in doubt
	ease     float64   // how clear it is then, at least
	length   int       // of the answer
	subjects [12]int32 // the nouns it keeps to
	anchored bool

	stray   float64 // divergence times difficulty
	blind   bool    // confidence says nothing here
	blunder int     // where a blind answer first goes wrong; 0 nowhere
	lapses  float64 // how often after that
	noise   [noiseLevels]float64
}

const noiseLevels = 64

// quantiles are normal ones, scaled to a variance of one.
var quantiles = func() (z [noiseLevels]float64) {
	var sum float64
	for i := range z {
		z[i] = normal((float64(i) + 0.5) / noiseLevels)
		sum += z[i] * z[i]
	}
	for i := range z {
		z[i] /= math.Sqrt(sum / noiseLevels)
	}
	return z
}()

// normal turns a uniform number into a normal one.
func normal(u float64) float64 { return math.Sqrt2 * math.Erfinv(2*u-1) }

// voiceAt returns the voice at c, and keeps it there.
func (m *Model) voiceAt(c *cursor) *voice {
	key := c.key()
	if c.voice != nil && c.voice.key == key {
		return c.voice
	}
	d := m.difficulty(key)
	v := &voice{key: key, hash: mix(m.seed, key), fork: 0.02 + 0.3*d*d, ease: 2.5 * (1 - d), length: m.answerLen(key),
		anchored: c.anchored, stray: m.divergence * d}
	nouns := m.tok.byClass[clsNoun]
	for i := range v.subjects {
		v.subjects[i] = nouns[mix(v.hash, uint64(i))%uint64(len(nouns))]
	}
	c.voice = v
	if v.stray > 0 {
		m.stray(v)
	}
	return v
}

// stray makes the voice that of a draft.
func (m *Model) stray(v *voice) {
	for i := range v.noise {
		v.noise[i] = math.Exp(noiseScale * v.stray * quantiles[i])
	}
	if v.blind = unit(mix(v.hash, 0xb11d)) < m.blind; !v.blind {
		return
	}
	odds := blunderOdds(m.divergence)
	if !v.anchored {
		v.lapses = -math.Log(1-odds) / 150 // no start to count from
		return
	}
	if unit(mix(v.hash, 0xb1d)) < odds {
		u := unit(mix(v.hash, 0xb1e))
		v.blunder = 1 + int(u*float64(v.length))
		v.lapses = min(blunderMore(m.divergence)/float64(v.length), 0.5)
	}
}

const (
	noiseScale = 3.4
	swapOdds   = 0.02
)

// blunderOdds is the share of answers that noise leads astray, and blunderMore is twice how often more it does so in
// them, both as measured.
func blunderOdds(d float64) float64 { return 1 - math.Exp(-2.7*d*d/((1+0.8*d)*(0.015+d))) }
func blunderMore(d float64) float64 { return 54 * math.Pow(d, 1.7) }

// gap is how far the most probable token is ahead.
func (v *voice) gap(h uint64, settled bool) float64 {
	r := mix(h, 0x9a)
	u := float64(r>>40) / (1 << 24)
	switch {
	case settled:
		return 3.5 + 3*u // the end of an answer is rarely in doubt
	case float64(r&0xffffff)/(1<<24) < v.fork:
		return 0.15 + 2.5*u + v.ease
	}
	return 3.5 + 4.5*u
}

// perturb turns the target's weights into the draft's.
func (v *voice) perturb(c *cursor, h uint64, d *Dist) {
	var w [numCands]float64
	top := d.Top
	for i := 0; i < len(top); {
		r := mix(h, uint64(0xd0a0+i))
		for n := min(i+10, len(top)); i < n; i++ {
			w[i] = top[i].P * v.noise[r%noiseLevels]
			r /= noiseLevels
		}
	}
	if v.blind {
		slices.SortFunc(w[:len(top)], func(a, b float64) int { return cmp.Compare(b, a) })
	}
	for i := range top {
		top[i].P = w[i]
	}
	d.sort()
	if len(top) > 1 && v.swaps(c, h) {
		top[0].ID, top[1].ID = top[1].ID, top[0].ID
	}
}

// swaps reports whether the draft takes the second best for the best, whatever the noise says.
func (v *voice) swaps(c *cursor, h uint64) bool {
	u := unit(mix(h, 0xbad))
	if !v.blind {
		return u < swapOdds*v.stray
	}
	if v.anchored && (c.since <= v.blunder || c.since >= v.length) {
		return c.since == v.blunder
	}
	return u < v.lapses
}
