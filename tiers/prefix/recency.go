package prefix

// recency is the order in which the parts on one backend were last used, as an engine
// keeps it: what was used least recently goes first. It tells how many tokens were
// used after a part. The zero value is empty.
//
// Each use takes the next slot. A Fenwick tree (Fenwick 1994) holds the tokens of every
// slot, so that a use and a question take O(log n). When the slots are used up, those
// that are empty are taken out ([recency.compact]).
type recency struct {
	tree  []float64 // sums; tree[0] is unused
	slots []float64 // tokens by slot
	next  int32     // the slot of the next use
	total float64
}

// minSlots is how many slots a backend has at least: to compact means to look at all that
// is placed anywhere.
const minSlots = 512

// full reports whether there is no slot for what comes next.
func (r *recency) full() bool { return int(r.next) >= len(r.slots) }

// use puts tokens into a new slot. It must not be full.
func (r *recency) use(tokens float64) (slot int32) {
	slot = r.next
	r.add(slot, tokens)
	r.next++
	return slot
}

// push puts tokens that no part has behind all that was used. They share the slot of the
// next use: they count for all that was used before. It must not be full.
func (r *recency) push(tokens float64) { r.add(r.next, tokens) }

func (r *recency) add(slot int32, tokens float64) {
	r.slots[slot] += tokens
	r.total += tokens
	for i := int(slot); i < len(r.tree); i += i & -i {
		r.tree[i] += tokens
	}
}

// after is how many tokens were used after a slot.
func (r *recency) after(slot int32) float64 {
	sum := r.total
	for i := int(slot); i > 0; i -= i & -i {
		sum -= r.tree[i]
	}
	return max(sum, 0)
}

// compact takes out the slots without a part; their tokens go to the next slot with one.
// used tells which slots have a part. It returns the new slot of each, and leaves room
// for as many uses again.
func (r *recency) compact(used []bool) (moved []int32) {
	moved = make([]int32, len(r.slots))
	kept, waits := []float64{0}, 0.0
	for i, tokens := range r.slots {
		waits += tokens
		if used[i] {
			moved[i] = int32(len(kept))
			kept, waits = append(kept, waits), 0
		}
	}
	n := max(2*len(kept), minSlots)
	*r = recency{tree: make([]float64, n), slots: make([]float64, n), next: 1}
	for _, tokens := range kept[1:] {
		r.use(tokens)
	}
	r.push(waits)
	return moved
}

// scale says that all lengths were wrong by a factor.
func (r *recency) scale(factor float64) {
	r.total *= factor
	for i := range r.slots {
		r.slots[i] *= factor
		r.tree[i] *= factor
	}
}
