package machine

import (
	"cmp"
	"slices"
)

// maxEjectionPercent is how much of a pool may be kept out for what it answered.
const maxEjectionPercent = 50

// Eject decides which of a pool's breakers may keep requests out for what the backend
// answered: the first half of the pool that opened, rounded down, so that no prompt that
// breaks every backend, and no mistake of ours in judging answers, closes a pool. A pool of
// one backend keeps it. A right once given stays until the breaker has closed. What cannot
// be reached needs none. size is how many backends the pool has. It returns those whose
// right has changed: first those that lost it, so that there are never more.
func Eject(pool []*Breaker, size int) (changed []*Breaker) {
	var candidates []*Breaker
	for _, b := range pool {
		switch {
		case b.ejects:
			candidates = append(candidates, b)
		case b.facts.MayEject:
			b.facts.MayEject = false
			changed = append(changed, b)
		}
	}
	slices.SortFunc(candidates, func(a, b *Breaker) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.Backend, b.Backend))
	})
	most := min(size*maxEjectionPercent/100, len(candidates))
	for _, b := range candidates[most:] {
		if b.facts.MayEject {
			b.facts.MayEject = false
			changed = append(changed, b)
		}
	}
	for _, b := range candidates[:most] {
		if !b.facts.MayEject {
			b.facts.MayEject = true
			changed = append(changed, b)
		}
	}
	return changed
}
