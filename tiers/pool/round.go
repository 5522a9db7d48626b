package pool

import (
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/prefix"
)

// round is the memory of one pick.
type round struct {
	backends []*backend
	cands    []choose.Candidate
	chain    []uint64
	raw      []int // what was expected to be cached, before it was compared with what comes true
}

// all looks at every backend.
func (s *round) all(set []*backend) { s.backends = append(s.backends[:0], set...) }

// silence has backends that are down for their silence alone count as suspects where
// none is up: it may be this replica that hears nothing.
func (s *round) silence(now time.Time) {
	for _, b := range s.backends {
		if !b.out(now) {
			return
		}
	}
	for i, b := range s.backends {
		if b.down == errSilent && b.drained.why(now) == "" {
			s.cands[i].Down, s.cands[i].Suspect = false, true
		}
	}
}

const (
	// mostLooked is how many backends a pick looks at: the least loaded of 64 drawn at
	// random is among the best 5 % of a pool of any size in 96 of 100 picks.
	mostLooked = 64
	// mostHomes is how many of these are the nearest to the prompt's home.
	mostHomes = 4
)

// sample looks at those where the prompt is warm or at home, and at some in a row
// from a place drawn by the turn. The caller holds mu.
func (s *round) sample(p *Pool, set []*backend, d *Demand, turn uint64, now time.Time) {
	s.backends = s.backends[:0]
	if b := p.byID[d.Warm]; b != nil {
		s.add(b)
	}
	p.warm.Find(d.parts(), 1<<30, func(number, _ int, _ bool) {
		if b := p.numbered[number]; b != nil && len(s.backends) < mostLooked/2 {
			s.add(b)
		}
	})
	if key := d.key(); key != 0 {
		s.homes(set, key)
	}
	for i, from := 0, prefix.Rendezvous(prefix.Key(turn), 0); i < len(set) && len(s.backends) < mostLooked; i++ {
		if b := set[(from+uint64(i))%uint64(len(set))]; !b.out(now) {
			s.add(b)
		}
	}
}

// homes adds those nearest to a prompt's home.
func (s *round) homes(set []*backend, key prefix.Key) {
	var nearest [mostHomes]*backend
	var ranks [mostHomes]uint64
	for _, b := range set {
		rank := prefix.Rendezvous(key, b.hash)
		if rank <= ranks[mostHomes-1] {
			continue
		}
		at := mostHomes - 1
		for ; at > 0 && rank > ranks[at-1]; at-- {
			nearest[at], ranks[at] = nearest[at-1], ranks[at-1]
		}
		nearest[at], ranks[at] = b, rank
	}
	for _, b := range nearest {
		if b != nil {
			s.add(b)
		}
	}
}

func (s *round) add(b *backend) {
	if !slices.Contains(s.backends, b) {
		s.backends = append(s.backends, b)
	}
}

// index is where a backend stands among those looked at, −1 when it does not.
func (s *round) index(b *backend) int {
	if b.at < len(s.backends) && s.backends[b.at] == b {
		return b.at // all are looked at
	}
	for i, o := range s.backends {
		if o == b {
			return i
		}
	}
	return -1
}
