package chaos

import (
	"sync"
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
	mu     sync.Mutex
	phase  string
	worst  map[string]time.Duration
	over   chan struct{}
	joined sync.WaitGroup
}

func startTimerLag() *TimerLag {
	p := &TimerLag{phase: Before, worst: map[string]time.Duration{}, over: make(chan struct{})}
	p.joined.Go(func() {
		for {
			began := time.Now()
			select {
			case <-p.over:
				return
			case <-time.After(pulseEvery):
			}
			p.beat(time.Since(began) - pulseEvery)
		}
	})
	return p
}

func (p *TimerLag) beat(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.worst[p.phase] = max(p.worst[p.phase], late)
}

// Phase says under which name lateness is kept from here on.
func (p *TimerLag) Phase(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase = name
}

// Worst is the most by which a timer was late, in any phase.
func (p *TimerLag) Worst() (worst time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.worst {
		worst = max(worst, d)
	}
	return worst
}

// Bound is what a promised time may become on this machine: 250 ms more, and five times
// what a timer was late.
func (p *TimerLag) Bound(promised time.Duration) time.Duration {
	return promised + busyMachine + 5*p.Worst()
}

func (p *TimerLag) stop() {
	close(p.over)
	p.joined.Wait()
}
