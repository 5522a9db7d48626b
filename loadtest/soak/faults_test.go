package soak

import (
	"math/rand/v2"
	"slices"
	"strings"
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

func TestFaultsAreChosenByName(t *testing.T) {
	got, err := Choose(&Options{Only: []string{"redis-slow", "target-killed"}})
	if err != nil || len(got) != 2 || got[0].Name != "target-killed" {
		t.Errorf("%v, %v", got, err)
	}
	if all, err := Choose(&Options{}); err != nil || len(all) != len(Faults()) {
		t.Errorf("%d faults, %v", len(all), err)
	}
	if _, err := Choose(&Options{Only: []string{"nonsense"}}); err == nil || !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("a fault that there is not: %v", err)
	}
}
