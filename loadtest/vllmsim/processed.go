package vllmsim

import (
	"math"
	"slices"
)

// processedLogprobs is the value of vLLM's --logprobs-mode with which a token's logprob is of the law that it was drawn by.
const processedLogprobs = "processed_logprobs"

// process turns the raw logprobs of a token that s picked from d, and of its alternatives, into those after temperature and
// truncation: what vLLM tells with --logprobs-mode processed_logprobs. Greedy ones stay as they are.
func (l *tokenLogprob) process(s *sampling, d *Dist, banned []int32) {
	if s.temperature == 0 {
		return
	}
	var w [numCands]float64
	k := s.keep(d, &w, banned)
	sum := k.sum + float64(k.tail)*k.each
	of := func(id int32) float64 {
		for i := range d.Top {
			if d.Top[i].ID == id {
				return clampLogprob(math.Log(w[i] / sum))
			}
		}
		if k.tail < k.all && d.before(id, banned) >= k.tail {
			return logprobFloor
		}
		return clampLogprob(math.Log(k.each / sum))
	}
	l.lp = of(l.id)
	for i := range l.top {
		l.top[i].lp = of(l.top[i].id)
	}
}

// before counts the ids of the tail below id that may come.
func (d *Dist) before(id int32, banned []int32) int {
	n := int(id)
	for i := range d.Top {
		if d.Top[i].ID < id {
			n--
		}
	}
	for i, b := range banned {
		if b >= 0 && b < id && !d.explicit(b) && !slices.Contains(banned[:i], b) {
			n--
		}
	}
	return n
}
