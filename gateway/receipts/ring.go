package receipts

import (
	"slices"
	"sync"
)

// Kept is how many receipts a [Ring] keeps.
const Kept = 1000

// Ring is the last receipts, about 1 kB each, at most 6. The zero value is ready, and safe for concurrent use.
type Ring struct {
	mu   sync.Mutex
	ring [Kept]Receipt
	n    int // total number added
}

// Add keeps a receipt, in the place of the oldest one.
func (r *Ring) Add(f *Receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.n%Kept] = *f
	r.n++
}

// Last returns at most n wanted receipts, the newest last.
func (r *Ring) Last(n int, wanted func(*Receipt) bool) []Receipt {
	r.mu.Lock()
	all := make([]Receipt, 0, min(r.n, Kept))
	for i := range cap(all) {
		all = append(all, r.ring[(r.n-1-i)%Kept])
	}
	r.mu.Unlock()
	out := slices.DeleteFunc(all, func(f Receipt) bool { return !wanted(&f) })
	out = out[:min(n, len(out))]
	slices.Reverse(out)
	return out
}
