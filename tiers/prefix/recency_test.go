package prefix

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// used is one thing in a list of what was used, the oldest first: a part, or tokens that
// are nobody's.
type used struct {
	part   int // −1 is none
	tokens float64
}

func TestRecencyIsAListInTheOrderOfLastUse(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var r recency
	var list []used
	slots, weights := map[int]int32{}, map[int]float64{}
	compacted := 0
	for step := range 6000 {
		if r.full() {
			has := make([]bool, len(r.slots))
			for _, slot := range slots {
				has[slot] = true
			}
			moved := r.compact(has)
			for part, slot := range slots {
				slots[part] = moved[slot]
			}
			compacted++
		}
		tokens := float64(rng.IntN(5000))
		switch part := rng.IntN(40 + step/50); {
		case rng.IntN(3) == 0:
			r.push(tokens)
			list = append(list, used{-1, tokens})
		case rng.IntN(50) == 0 && slots[part] > 0: // forgotten: its tokens are nobody's from then on
			delete(slots, part)
			list[slices.IndexFunc(list, func(u used) bool { return u.part == part })].part = -1
		default:
			if slot, there := slots[part]; there {
				r.add(slot, -weights[part])
				list = slices.DeleteFunc(list, func(u used) bool { return u.part == part })
			}
			slots[part], weights[part] = r.use(tokens), tokens
			list = append(list, used{part, tokens})
		}
		if step%100 != 0 {
			continue
		}
		behind := 0.0
		for _, u := range slices.Backward(list) {
			if u.part >= 0 && math.Abs(r.after(slots[u.part])-behind) > 1e-3 {
				t.Fatalf("step %d: %v tokens were used after part %d, want %v", step, r.after(slots[u.part]), u.part, behind)
			}
			behind += u.tokens
		}
	}
	if compacted < 5 {
		t.Errorf("compacted %d times", compacted)
	}
	if len(r.slots) > 4*(len(slots)+1) && len(r.slots) > minSlots {
		t.Errorf("%d slots for %d parts", len(r.slots), len(slots))
	}
}
