package vllmsim

import (
	"math"
	"slices"
)

// sampling is how one choice picks its tokens. The zero temperature takes the argmax. The draw for a token depends on
// the seed and on the token's place (see cursor.place), not on where generation began: so a sampled answer, too, goes on
// from a prefix as it would have gone on in one go. Nothing is truncated: top_p, top_k and min_p are checked, and ignored.
type sampling struct {
	temperature float64
	seed        uint64
}

// pick samples the token at place at from d. It is a pure function of the seed, at and d. banned ids, if any, are left
// out (min_tokens keeps the end of sequence away); at the zero temperature, too.
func (s *sampling) pick(d *Dist, at uint64, banned []int32) int32 {
	h := mix(s.seed, at)
	switch {
	case s.temperature == 0:
		for _, c := range d.Top {
			if !slices.Contains(banned, c.ID) {
				return c.ID
			}
		}
		return d.tailID(0, banned)
	case banned == nil && s.temperature <= 1:
		return s.draw(d, h)
	}
	var w [numCands]float64
	k := s.keep(d, &w, banned)
	u := unit(h) * (k.sum + float64(k.tail)*k.each)
	for i := range d.Top {
		if u -= w[i]; u < 0 {
			return d.Top[i].ID
		}
	}
	return d.tailID(mix(h, 7), banned)
}

// draw samples at a temperature of at most one by rejection: a draw from d itself stands with probability
// (p / most probable)^(1/temperature - 1). That is exact, and mostly the first draw stands, so that no other
// candidate's power is needed.
func (s *sampling) draw(d *Dist, h uint64) int32 {
	power, best := 1/s.temperature-1, d.Top[0].P
	for {
		id, p := d.at(h)
		if power == 0 || p >= best || unit(mix(h, 1)) < math.Pow(p/best, power) {
			return id
		}
		h = mix(h, 2)
	}
}

// at returns the token that h falls on, and its probability.
func (d *Dist) at(h uint64) (int32, float64) {
	u := unit(h)
	for i := range d.Top {
		c := &d.Top[i]
		if u -= c.P; u < 0 {
			return c.ID, c.P
		}
	}
	return d.tailID(mix(h, 7), nil), d.Tail
}

// kept is what temperature leaves of a distribution, in weights relative to the most probable token's.
type kept struct {
	sum  float64 // of the candidates' weights
	each float64 // weight of each token of the tail
	tail int     // tokens of the tail, without those that are banned
}

// keep fills w with the candidates' weights after temperature, relative to the most probable one so that a low temperature
// does not underflow.
func (s *sampling) keep(d *Dist, w *[numCands]float64, banned []int32) kept {
	best := d.Top[0].P
	scale := func(p float64) float64 {
		if s.temperature == 1 {
			return p / best
		}
		return math.Pow(p/best, 1/s.temperature)
	}
	k := kept{each: scale(d.Tail), tail: d.Vocab - len(d.Top) - d.tailHas(banned)}
	for i, c := range d.Top {
		if !slices.Contains(banned, c.ID) {
			w[i] = scale(c.P)
		}
		k.sum += w[i]
	}
	return k
}

// tailHas counts the different banned ids in the tail.
func (d *Dist) tailHas(banned []int32) (n int) {
	for i, id := range banned {
		if id >= 0 && int(id) < d.Vocab && !d.explicit(id) && !slices.Contains(banned[:i], id) {
			n++
		}
	}
	return n
}

func (d *Dist) explicit(id int32) bool {
	for i := range d.Top {
		if d.Top[i].ID == id {
			return true
		}
	}
	return false
}

// tailID returns one of the ids that are not in Top, all equally likely.
func (d *Dist) tailID(h uint64, banned []int32) int32 {
	for {
		id := int32(h % uint64(d.Vocab))
		if !d.explicit(id) && !slices.Contains(banned, id) {
			return id
		}
		h = mix(h, 11)
	}
}
