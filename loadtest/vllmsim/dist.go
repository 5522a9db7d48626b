package vllmsim

import (
	"math"
	"slices"
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

// merge makes Top of weighted candidates: equal ids are summed, and the heaviest come first. Most come in order already.
func (d *Dist) merge(ids *[numCands]int32, w *[numCands]float64) {
	top := d.Top[:0]
	var seen [4]uint64 // by the id's last byte: what is not marked has not come yet
	for i, id := range ids {
		word, bit := &seen[id>>6&3], uint64(1)<<(id&63)
		if *word&bit != 0 && addTo(top, id, w[i]) {
			continue
		}
		*word |= bit
		top = append(top, Cand{ID: id, P: w[i]})
	}
	d.Top = top
	d.sort()
}

// addTo adds to the candidate id, if there is one.
func addTo(top []Cand, id int32, w float64) bool {
	for i := range top {
		if top[i].ID == id {
			top[i].P += w
			return true
		}
	}
	return false
}

// sort is by insertion: there are few candidates, nearly in order.
func (d *Dist) sort() {
	top := d.Top
	for i := 1; i < len(top); i++ {
		c := top[i]
		j := i
		for ; j > 0 && (top[j-1].P < c.P || top[j-1].P == c.P && top[j-1].ID > c.ID); j-- {
			top[j] = top[j-1]
		}
		top[j] = c
	}
}

// normalise turns weights into probabilities, the tail's share included.
func (d *Dist) normalise(vocab int) {
	var sum float64
	for i := range d.Top {
		sum += d.Top[i].P
	}
	d.Vocab, d.Tail = vocab, tailMass/float64(vocab)
	scale := (1 - tailMass) / sum
	for i := range d.Top {
		d.Top[i].P = d.Top[i].P*scale + d.Tail
	}
}

// force gives a scripted token its probability, and others theirs. The rest goes to the candidates there were.
func (d *Dist) force(sc scripted, others []Cand) {
	given := append([]Cand{{ID: sc.id, P: sc.p}}, others...)
	kept := d.Top[:0]
	for _, c := range d.Top {
		if !slices.ContainsFunc(given, func(g Cand) bool { return g.ID == c.ID }) {
			kept = append(kept, c)
		}
	}
	kept = kept[:min(len(kept), numCands-len(given))]
	left := 1 - d.Tail*float64(d.Vocab-len(kept)-len(given))
	for _, c := range given {
		left -= c.P
	}
	var rest float64
	for _, c := range kept {
		rest += c.P
	}
	if len(kept) == 0 {
		given[0].P += left
	}
	for i := range kept {
		kept[i].P *= left / rest
	}
	d.Top = slices.Insert(kept, 0, given...)
	d.sort()
}
