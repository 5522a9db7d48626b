package machine

import (
	"cmp"
	"slices"
)

// maxEjectionPercent is the share of a pool that may be kept out because of bad answers.
const maxEjectionPercent = 50

// Eject decides which of a pool's breakers may keep requests out because of bad answers: the first half of
// the pool that opened, rounded down. So neither a prompt that breaks every backend nor a wrong
// classification of answers can close a pool. A pool of one backend always keeps it. A permission stays until
// the breaker has closed. Backends that cannot be reached need none. size is the number of backends in the
// pool. Eject returns the breakers whose permission has changed: first those that lost it, so that there are
// never too many.
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
	maxEjected := min(size*maxEjectionPercent/100, len(candidates))
	for _, b := range candidates[maxEjected:] {
		if b.facts.MayEject {
			b.facts.MayEject = false
			changed = append(changed, b)
		}
	}
	for _, b := range candidates[:maxEjected] {
		if !b.facts.MayEject {
			b.facts.MayEject = true
			changed = append(changed, b)
		}
	}
	return changed
}
