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
	if s.temperature == 0 {
		for _, c := range d.Top {
			if banned == nil || !banned(c.ID) {
				return c.ID
			}
		}
	}
	var w [numCands]float64
	total, tail := s.weights(d, &w, banned)
	h := mix(s.seed, uint64(t))
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

// weights fills w with the candidates' weights after temperature and truncation, relative to the most probable one so
// that a low temperature does not underflow. It returns their sum and the tail's weight.
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
	if s.untruncated() {
		return sum, tail
	}
	all, kept := sum+tail, 0.0
	for i := range d.Top {
		cut := s.topK > 0 && i >= s.topK || s.topP < 1 && kept >= s.topP*all || w[i] < s.minP*w[0]
		if cut && kept > 0 {
			w[i] = 0
		}
		kept += w[i]
	}
	return kept, 0
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
