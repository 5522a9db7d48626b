package cache

import (
	"bytes"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// whole is n, or a fiftieth of it where that would take too long.
func whole(n int) int {
	if raced || testing.Short() {
		return n / 50
	}
	return n
}

// each does n things, as many at a time as there are processors.
func each(n int, do func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	all.Wait()
}

// sealedEntries are n keys, and a value of each.
func sealedEntries(t *testing.T, s *Sealer, n int) (keys []Key, values [][]byte) {
	t.Helper()
	for i := range n {
		keys = append(keys, keyNo(i))
		values = append(values, s.Seal(keys[i], entryNo(i, 60+i%80)))
		if _, err := s.Open(keys[i], values[i], 1000); err != nil {
			t.Fatal(err)
		}
	}
	return keys, values
}

func TestAnEntryThatWasFlippedAnywhereIsAMiss(t *testing.T) {
	s := mustSealer(t, SealKey{"a", secret(1)}, SealKey{"c", secret(2)}) // one bit lies between the ids
	keys, values := sealedEntries(t, s, whole(1000))
	var flips atomic.Int64
	each(len(keys), func(i int) {
		value := bytes.Clone(values[i])
		for bit := range 8 * len(value) {
			value[bit/8] ^= 1 << (bit % 8)
			e, err := s.Open(keys[i], value, 1000)
			if e != nil || err != ErrDamaged && err != ErrForeign {
				t.Errorf("entry %d, bit %d: it opened, or failed with %v", i, bit, err)
			}
			value[bit/8] ^= 1 << (bit % 8)
		}
		flips.Add(int64(8 * len(value)))
		if !bytes.Equal(value, values[i]) {
			t.Errorf("entry %d: opening changed the value", i)
		}
	})
	t.Logf("%d bits flipped", flips.Load())
}

func TestAnEntryThatWasCutOrContinuedIsAMiss(t *testing.T) {
	s := mustSealer(t, SealKey{"a", secret(1)})
	keys, values := sealedEntries(t, s, whole(1000))
	each(len(keys), func(i int) {
		for n := range values[i] {
			if e, err := s.Open(keys[i], values[i][:n], 1000); err == nil || e != nil {
				t.Errorf("entry %d cut at %d: it opened", i, n)
			}
		}
		for n := 1; n <= 64; n++ {
			for _, more := range [][]byte{make([]byte, n), values[i][:n], values[i][len(values[i])-n:]} {
				if e, err := s.Open(keys[i], slices.Concat(values[i], more), 1000); err == nil || e != nil {
					t.Errorf("entry %d with %d bytes behind it: it opened", i, n)
				}
			}
		}
	})
}

func TestAnEntryOfAnotherKeyIsAMiss(t *testing.T) {
	s := mustSealer(t, SealKey{"a", secret(1)})
	keys, values := sealedEntries(t, s, whole(1000))
	each(len(keys), func(at int) {
		for of := range values {
			e, err := s.Open(keys[at], values[of], 1000)
			switch {
			case of == at && err != nil:
				t.Errorf("entry %d at its own key: %v", of, err)
			case of != at && (err != ErrDamaged || e != nil):
				t.Errorf("entry %d at the key of %d: error %v, want ErrDamaged", of, at, err)
			}
		}
	})
}
