package main

import "testing"

func TestTheMemoryIsDividedByTheLimit(t *testing.T) {
	const mib = 1 << 20
	for limit, want := range map[int64]memory{
		0:          {0, 256 * mib},
		400 * mib:  {360 * mib, 100 * mib},
		100 * mib:  {75 * mib, 25 * mib},
		200 * mib:  {168 * mib, 50 * mib},
		4096 * mib: {4096*mib - 4096*mib/10, 1024 * mib},
		1:          {1, 1},
	} {
		if got := planMemory(limit); got != want {
			t.Errorf("%d: %+v, want %+v", limit, got, want)
		}
	}
}

func TestTheHeapGrowsLessTheMoreLives(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int{0: 400, 5 * mib: 400, 10 * mib: 400, 20 * mib: 200, 40 * mib: 100, 400 * mib: 100, 1 << 62: 100} {
		if got := growth(live); got != want {
			t.Errorf("%d bytes live: %d %%, want %d %%", live, got, want)
		}
	}
}
