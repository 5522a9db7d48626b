package vllmsim

import (
	"cmp"
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

// merge makes Top of weighted candidates: equal ids are summed, and the heaviest come first.
func (d *Dist) merge(ids *[numCands]int32, w *[numCands]float64) {
	d.Top = d.Top[:0]
candidates:
	for i, id := range ids {
		for k := range d.Top {
			if d.Top[k].ID == id {
				d.Top[k].P += w[i]
				continue candidates
			}
		}
		d.Top = append(d.Top, Cand{ID: id, P: w[i]})
	}
	d.sort()
}

// sort puts the most probable first, equal ones by id.
func (d *Dist) sort() {
	slices.SortFunc(d.Top, func(a, b Cand) int {
		if a.P != b.P {
			return cmp.Compare(b.P, a.P)
		}
		return cmp.Compare(a.ID, b.ID)
	})
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
