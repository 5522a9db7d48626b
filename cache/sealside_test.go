package cache

import (
	"bytes"
	"sync"
	"testing"
)

// TestKeysDerivedSideBySideAreEachEntrysOwn has many goroutines derive keys while the keys rotate: the hash states are shared.
func TestKeysDerivedSideBySideAreEachEntrysOwn(t *testing.T) {
	keys := []SealKey{{"a", secret(1)}, {"b", secret(2)}}
	s := mustSealer(t, keys...)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 50 {
				k, e := keyNo(n), entryNo(n, 100*n+i)
				value := s.Seal(k, e)
				got, err := s.Open(k, value, len(e.Answer))
				if err != nil || !bytes.Equal(got.Answer, e.Answer) {
					t.Errorf("entry %d: %v", n, err)
				}
				if _, err := s.Open(keyNo(n+1), value, len(e.Answer)); err == nil {
					t.Errorf("entry %d opens with the key of another", n)
				}
				if n == 0 {
					keys[0], keys[1] = keys[1], keys[0]
					if err := s.Replace(keys...); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
}
