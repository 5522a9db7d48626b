package upload

import (
	"math/rand/v2"
	"testing"
)

func TestATenantMayHoldTwiceWhatIsFree(t *testing.T) {
	for _, tc := range []struct {
		total, used, inUse, n int64
		want                  verdict
	}{
		{1, 0, 0, 1, granted}, {1, 1, 0, 1, spent}, {1, 1, 1, 1, overShare},
		{90, 0, 0, 90, granted}, {90, 0, 0, 91, spent}, // nobody else holds anything
		{90, 30, 30, 1, granted}, {90, 59, 59, 1, granted}, {90, 60, 60, 1, overShare}, {90, 1, 1, 60, overShare}, // two thirds
		{90, 60, 0, 1, granted}, {90, 60, 0, 30, granted}, {90, 60, 0, 31, spent}, // another finds the rest
		{90, 60, 10, 20, spent}, {90, 60, 10, 10, granted}, {90, 60, 30, 1, granted}, {90, 72, 36, 1, overShare}, // two fifths
		{90, 90, 30, 1, spent}, {90, 89, 89, 1, overShare},
	} {
		if got := (quota{tc.total, tc.used}).judge(tc.inUse, tc.n); got != tc.want {
			t.Errorf("%d of %d used, of that %d by the tenant, %d more: %d, want %d", tc.used, tc.total, tc.inUse, tc.n, got, tc.want)
		}
	}
}

// TestHoweverManyTakeAllTheyCanSomethingIsLeft has greedy tenants take places until nobody gets another.
func TestHoweverManyTakeAllTheyCanSomethingIsLeft(t *testing.T) {
	const total = 10_000
	for k := 1; k <= 20; k++ {
		q := quota{total: total}
		inUse := make([]int64, k)
		for progress := true; progress; {
			progress = false
			for i := range inUse {
				if q.judge(inUse[i], 1) == granted {
					inUse[i]++
					q.used++
					progress = true
				}
			}
		}
		left := total - q.used
		if want := int64(total / (maxShareFactor*k + 1)); left < want-int64(k)-1 || left > want+int64(k)+1 {
			t.Errorf("%d tenants leave %d of %d, want about %d", k, left, total, want)
		}
		if q.judge(0, 1) != granted {
			t.Errorf("behind %d tenants one that holds nothing gets nothing", k)
		}
	}
}

func FuzzNobodyGetsMoreThanThereIs(f *testing.F) {
	f.Add(uint64(1), int64(100), 3)
	f.Fuzz(func(t *testing.T, seed uint64, total int64, tenants int) {
		if total < 1 || total > 1<<40 || tenants < 1 || tenants > 50 {
			return
		}
		dice := rand.New(rand.NewPCG(seed, 0))
		q, inUse := quota{total: total}, make([]int64, tenants)
		for range 500 {
			i, n := dice.IntN(tenants), 1+dice.Int64N(total)
			if dice.IntN(3) == 0 { // it gives some back
				n = min(n, inUse[i])
				inUse[i] -= n
				q.used -= n
				continue
			}
			free := total - q.used
			v := q.judge(inUse[i], n)
			switch {
			case v == granted && (n > free || inUse[i] > 0 && inUse[i]+n > maxShareFactor*(free-n)):
				t.Fatalf("%d granted to one that holds %d, with %d free", n, inUse[i], free)
			case v != granted && inUse[i] == 0 && n <= free:
				t.Fatalf("%d of %d free refused to one that holds nothing", n, free)
			case v == granted:
				inUse[i] += n
				q.used += n
			}
		}
	})
}
