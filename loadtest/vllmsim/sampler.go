package vllmsim

import "math"

// sampling is how one choice picks its tokens. The zero temperature takes the argmax. The draw for a token depends on
// the seed and on its distance to the anchor, not on where generation began: so a sampled answer, too, goes on from a
// prefix as it would have gone on in one go.
type sampling struct {
	temperature float64
	topP, minP  float64
	topK        int
	seed        uint64
}

// pick samples the token at distance t from d. It is a pure function of the seed, t and d. banned ids, if any, are
// left out (min_tokens keeps the end of sequence away).
func (s *sampling) pick(d *Dist, t int, banned func(int32) bool) int32 {
	h := mix(s.seed, uint64(t))
	switch {
	case s.temperature == 0:
		for _, c := range d.Top {
			if banned == nil || !banned(c.ID) {
				return c.ID
			}
		}
	case banned == nil && s.temperature <= 1 && s.untruncated():
		return s.draw(d, h)
	}
	var w [numCands]float64
	total, tail := s.weights(d, &w, banned)
	u := unit(h) * (total + tail)
	for i := range d.Top {
		if u -= w[i]; u < 0 {
			return d.Top[i].ID
		}
	}
	return d.tailID(mix(h, 7), banned)
}

func (s *sampling) untruncated() bool {
	return s.topP >= 1 && s.topK <= 0 && s.minP <= 0
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

// weights fills w with the candidates' weights after temperature and truncation, relative to the most probable one so
// that a low temperature does not underflow. It returns their sum and the tail's weight, which any truncation cuts off.
func (s *sampling) weights(d *Dist, w *[numCands]float64, banned func(int32) bool) (sum, tail float64) {
	best := d.Top[0].P
	scale := func(p float64) float64 {
		if s.temperature == 1 {
			return p / best
		}
		return math.Pow(p/best, 1/s.temperature)
	}
	for i, c := range d.Top {
		if banned == nil || !banned(c.ID) {
			w[i] = scale(c.P)
		}
		sum += w[i]
	}
	tail = scale(d.Tail) * float64(d.Vocab-len(d.Top))
	if !s.untruncated() {
		return s.truncate(w[:len(d.Top)], tail), 0
	}
	return sum, tail
}

// truncate zeroes the weights that min_p, top_k and then top_p leave out, as vLLM does: top_p is a share of what the
// others have left. It returns what remains.
func (s *sampling) truncate(w []float64, tail float64) (kept float64) {
	n, best, left := 0, 0.0, tail
	if s.topK > 0 || s.minP > 0 {
		left = 0
	}
	for i := range w {
		if best == 0 {
			best = w[i]
		}
		if w[i] < s.minP*best || s.topK > 0 && n >= s.topK {
			w[i] = 0
		}
		if w[i] > 0 {
			n++
		}
		left += w[i]
	}
	for i := range w {
		if s.topP < 1 && kept > 0 && kept >= s.topP*left {
			w[i] = 0
		}
		kept += w[i]
	}
	return kept
}

// tailID returns one of the ids that are not in Top, all equally likely.
func (d *Dist) tailID(h uint64, banned func(int32) bool) int32 {
	for {
		id := int32(h % uint64(d.Vocab))
		h = mix(h, 11)
		if banned != nil && banned(id) {
			continue
		}
		free := true
		for i := range d.Top {
			free = free && d.Top[i].ID != id
		}
		if free {
			return id
		}
	}
}
