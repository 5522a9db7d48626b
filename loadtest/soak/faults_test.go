package soak

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestAScheduleHasEveryFaultBeforeAnyComesAgain(t *testing.T) {
	names := func(seed uint64, n int) (out []string) {
		for _, f := range schedule(Faults(), n, rand.New(rand.NewPCG(seed, 1))) {
			out = append(out, f.Name)
		}
		return out
	}
	n := len(Faults())
	got := names(1, 2*n+1)
	if len(got) != 2*n+1 || len(slices.Compact(slices.Sorted(slices.Values(got[:n])))) != n || len(slices.Compact(slices.Sorted(slices.Values(got[n:2*n])))) != n {
		t.Errorf("the order is %v", got)
	}
	if !slices.Equal(got, names(1, 2*n+1)) || slices.Equal(got, names(2, 2*n+1)) {
		t.Error("the order does not follow from the seed")
	}
	if len(names(1, 0)) != 0 {
		t.Error("no fault is one")
	}
}
