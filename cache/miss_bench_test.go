package cache

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/redistest"
)

// BenchmarkMiss is a request that misses: a look, and the answer that is put afterwards, of 64 requests at once on one
// processor. CPU-us is the time of this process, not of Redis.
func BenchmarkMiss(b *testing.B) {
	for _, c := range []struct {
		name  string
		lease bool
	}{{"alone", false}, {"with a lease", true}} {
		b.Run(c.name, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			s := storeAt(b, redistest.Start(b).Addr)
			running(b, s)
			e := answerOf(keyNo(1), 500)
			var next atomic.Uint64
			b.ReportAllocs()
			b.ResetTimer()
			before := cpuTime()
			var all sync.WaitGroup
			for range 64 {
				all.Go(func() {
					kept := make(chan struct{}, 1)
					kept <- struct{}{}
					for n := next.Add(1); n <= uint64(b.N); n = next.Add(1) {
						missOnce(b, s, n, c.lease)
						<-kept
						s.Put(numbered(n), e, time.Hour, func() { kept <- struct{}{} })
					}
					<-kept
				})
			}
			all.Wait()
			b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/1000/float64(b.N), "CPU-us/op")
			if s.Stats().Away || s.metrics.dropped.all()[droppedError] > 0 {
				b.Error("Redis failed")
			}
		})
	}
}

func missOnce(b *testing.B, s *Store, n uint64, withLease bool) {
	k, want := numbered(n), FoundNone
	var lease *Lease
	if withLease {
		lease, want = leaseOf(k), FoundLead
	}
	if _, found := s.Look(context.Background(), k, lease); found != want {
		b.Errorf("found %s", found)
	}
}

// numbered is one of many keys.
func numbered(n uint64) (k Key) {
	binary.BigEndian.PutUint64(k.name[:], n)
	return k
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
