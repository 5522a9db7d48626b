package vllmsim

import (
	"math"
	"slices"
)

// sampling is how one choice picks its tokens. The zero temperature takes the argmax. The draw for a token depends on
// the seed and on the token's place (see cursor.place), not on where generation began: so a sampled answer, too, goes on
// from a prefix as it would have gone on in one go.
type sampling struct {
	temperature float64
	topP, minP  float64
	topK        int
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
		return d.nthOfTail(0, banned)
	case banned == nil && s.temperature <= 1 && s.untruncated():
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
	switch {
	case k.tail == k.all && k.all > 0:
		return d.tailID(mix(h, 7), banned)
	case k.tail > 0:
		return d.nthOfTail(min(int(u/k.each), k.tail-1), banned)
	}
	return d.Top[k.last].ID // u fell off the end by rounding
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

// kept is what temperature and truncation leave of a distribution, in weights relative to the most probable token's.
type kept struct {
	sum  float64 // of the candidates' weights
	each float64 // weight of each token of the tail
	all  int     // tokens of the tail, without those that are banned
	tail int     // how many of them are left: those of the lowest ids, as all weigh the same
	last int     // the last candidate left
}

// keep fills w with the candidates' weights after temperature and truncation, relative to the most probable one so that
// a low temperature does not underflow.
func (s *sampling) keep(d *Dist, w *[numCands]float64, banned []int32) kept {
	best := d.Top[0].P
	scale := func(p float64) float64 {
		if s.temperature == 1 {
			return p / best
		}
		return math.Pow(p/best, 1/s.temperature)
	}
	k := kept{each: scale(d.Tail), all: d.Vocab - len(d.Top) - d.tailHas(banned)}
	k.tail = k.all
	for i, c := range d.Top {
		if banned == nil || !slices.Contains(banned, c.ID) {
			w[i] = scale(c.P)
			k.last = i
		}
		k.sum += w[i]
	}
	if !s.untruncated() {
		s.truncate(w[:len(d.Top)], &k)
	}
	return k
}

// truncate zeroes the weights that min_p, top_k and then top_p leave out, as vLLM does: top_p is a share of what the
// others have left. The tail comes last, and keeps as many tokens as it takes.
func (s *sampling) truncate(w []float64, k *kept) {
	best := k.each // when every candidate is banned
	for _, x := range w {
		if x > 0 {
			best = x
			break
		}
	}
	n := 0
	k.sum = 0
	for i := range w {
		if w[i] < s.minP*best || s.topK > 0 && n >= s.topK {
			w[i] = 0
		}
		if w[i] > 0 {
			n++
			k.last = i
		}
		k.sum += w[i]
	}
	if k.each < s.minP*best {
		k.tail = 0
	}
	if s.topK > 0 {
		k.tail = min(k.tail, max(s.topK-n, 0))
	}
	if s.topP < 1 {
		s.nucleus(w, k)
	}
}

// nucleus keeps tokens until they hold the share top_p, at least one.
func (s *sampling) nucleus(w []float64, k *kept) {
	share := s.topP * (k.sum + float64(k.tail)*k.each)
	k.sum = 0
	for i := range w {
		if k.sum > 0 && k.sum >= share {
			w[i] = 0
		}
		if w[i] > 0 {
			k.last = i
		}
		k.sum += w[i]
	}
	if k.tail > 0 {
		k.tail = min(k.tail, max(0, int(math.Ceil((share-k.sum)/k.each))))
	}
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

// nthOfTail returns the tail's id number n in order of id, counted from 0.
func (d *Dist) nthOfTail(n int, banned []int32) int32 {
	for id := int32(0); ; id++ {
		if d.explicit(id) || slices.Contains(banned, id) {
			continue
		}
		if n--; n < 0 {
			return id
		}
	}
}
