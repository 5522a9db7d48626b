package chaos

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	pulseEvery = 5 * time.Millisecond
	// busyMachine is what a machine that does other things, too, may add to any time that
	// is promised.
	busyMachine = 250 * time.Millisecond
)

// TimerLag measures how slow the machine itself is: by how much a timer of a few
// milliseconds is late.
type TimerLag struct {
	worst  atomic.Int64 // ns
	over   chan struct{}
	joined sync.WaitGroup
}

func startTimerLag() *TimerLag {
	p := &TimerLag{over: make(chan struct{})}
	p.joined.Go(func() {
		for {
			began := time.Now()
			select {
			case <-p.over:
				return
			case <-time.After(pulseEvery):
			}
			late := time.Since(began) - pulseEvery
			p.worst.Store(max(p.worst.Load(), int64(late))) // nobody else writes it
		}
	})
	return p
}

// Worst is the most by which a timer was late.
func (t *TimerLag) Worst() time.Duration { return time.Duration(t.worst.Load()) }

// Bound is what a promised time may become on this machine: 250 ms more, and five times
// what a timer was late.
func (t *TimerLag) Bound(promised time.Duration) time.Duration {
	return promised + busyMachine + 5*t.Worst()
}

func (t *TimerLag) stop() {
	close(t.over)
	t.joined.Wait()
}
