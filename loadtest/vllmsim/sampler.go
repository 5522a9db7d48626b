package vllmsim

import "math"

// sampling is how one choice picks its tokens. The zero temperature takes the argmax.
type sampling struct {
	temperature float64
	topP, minP  float64
	topK        int
	seed        uint64
}

// pick samples the t-th token of an answer from d. It is a pure function of the seed, t and d. banned ids, if any, are
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
	total := s.weights(d, &w, banned)
	tail := 0.0
	if s.untruncated() {
		tail = math.Pow(d.Tail, 1/s.temperature) * float64(d.Vocab-len(d.Top))
	}
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
	return (s.topP <= 0 || s.topP >= 1) && s.topK <= 0 && s.minP <= 0
}

// weights fills w with unnormalised weights after temperature and truncation, and returns their sum.
func (s *sampling) weights(d *Dist, w *[numCands]float64, banned func(int32) bool) float64 {
	var all float64
	for i, c := range d.Top {
		w[i] = c.P
		if s.temperature != 1 {
			// Relative to the largest, so that a low temperature does not underflow to nothing.
			w[i] = math.Pow(c.P/d.Top[0].P, 1/s.temperature) * math.Pow(d.Top[0].P, 1/s.temperature)
		}
		if banned != nil && banned(c.ID) {
			w[i] = 0
		}
		all += w[i]
	}
	if s.untruncated() {
		return all
	}
	var kept, best float64
	for i := range d.Top {
		best = max(best, w[i])
		cut := s.topK > 0 && i >= s.topK || s.topP > 0 && s.topP < 1 && kept >= s.topP*all || w[i] < s.minP*best
		if cut && kept > 0 {
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
