package cache

import (
	"testing"
	"time"

	"github.com/foregate/foregate/internal/redistest"
)

// BenchmarkLookUp is what a request pays for an answer of 2 kB in this process or in Redis, and for none.
func BenchmarkLookUp(b *testing.B) {
	s := storeAt(b, redistest.Start(b).Addr)
	running(b, s)
	if reader, ok := any(s).(interface {
		ReadEpochs(hash map[string]string, err error, at time.Time)
	}); ok {
		reader.ReadEpochs(map[string]string{"all": "1"}, nil, time.Now().Add(time.Hour))
	}
	k := keyNo(1)
	keep(b, s, k, answerOf(k, 2000))
	wantFound(b, s, k, ResultHit)
	s.now = func() time.Time { return time.Unix(0, 0) } // the copy stays young
	b.Run("miss", func(b *testing.B) {
		other := keyNo(2)
		for b.Loop() {
			if _, found := s.Look(b.Context(), other); found != ResultMiss {
				b.Fatal(found)
			}
		}
	})
	b.Run("hit Redis", func(b *testing.B) {
		for b.Loop() {
			if _, found := s.Look(b.Context(), k); found != ResultHit {
				b.Fatal(found)
			}
		}
	})
	b.Run("hit local", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, ok := s.Local(k); !ok {
					b.Fatal("no copy")
				}
			}
		})
	})
}
