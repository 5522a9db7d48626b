package loadtest

import (
	"math"
	"sync"
	"time"
)

// pacer says when the conversations of an open loop begin. It walks from one to
// the next, and from the first again when an earlier one is asked for.
type pacer struct {
	mu    sync.Mutex
	kind  string
	seed  draw
	end   float64 // seconds; nothing begins then or later
	rate  float64 // per second
	burst int
	low   float64 // per second, of a day
	every float64 // seconds between bursts; 0 is none
	day   float64 // seconds that a day lasts
	level float64 // share of the rate and of bursts at the beginning; 1 is all
	from  float64 // seconds until it begins to rise
	until float64 // seconds until all of it is there

	next           int     // conversations walked past
	last           float64 // when conversation next−1 begins
	gaps           uint64  // drawn
	single         float64 // when the next one outside of bursts begins
	rush           float64 // when the next burst does
	burstRemaining int     // of the burst that has begun
	rushed         bool    // conversation next−1 is of a burst
}

// newPacer scales the scenario's arrivals by load.
func newPacer(s *Scenario, load float64, seed draw) *pacer {
	a := s.Arrivals
	p := &pacer{
		kind: a.Kind, seed: seed, end: s.Duration.Seconds(),
		rate: a.PerSecond * load, low: a.Lowest * load, burst: max(1, int(math.Round(float64(a.Burst)*load))), every: a.Every.Seconds(), day: a.Length.Seconds(),
		level: 1,
	}
	if s.Ramp.Until > 0 && load > 1 {
		p.level, p.from, p.until = 1/load, s.Ramp.From.Seconds(), s.Ramp.Until.Seconds()
	}
	p.reset()
	return p
}

func (p *pacer) reset() {
	p.next, p.last, p.gaps, p.burstRemaining = 0, 0, 0, 0
	p.rush = math.Inf(1)
	if p.every > 0 {
		p.rush = p.every
	}
	p.single = p.after(0)
}

// start returns when conversation i begins, and false when that is past the end.
func (p *pacer) start(i int) (time.Duration, bool) {
	if i < 0 {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.walk(i)
}

// inBurst reports whether conversation i is one of a burst.
func (p *pacer) inBurst(i int) bool {
	if p.every == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.walk(i)
	return ok && p.rushed
}

// walk is start; p.mu is held.
func (p *pacer) walk(i int) (time.Duration, bool) {
	at := float64(i) / p.rate
	if p.kind != Rate {
		if i < p.next-1 {
			p.reset()
		}
		for p.next <= i {
			if p.next > 0 && p.last >= p.end { // so is all that follows
				return 0, false
			}
			p.last = p.step()
			p.next++
		}
		at = p.last
	}
	if !(at < p.end) {
		return 0, false
	}
	return time.Duration(at * float64(time.Second)), true
}

// step returns when the next one begins.
func (p *pacer) step() float64 {
	if p.burstRemaining > 0 {
		p.burstRemaining--
		return p.last
	}
	p.rushed = p.rush <= p.single
	if p.rushed {
		at := p.rush
		p.rush += p.every
		p.burstRemaining = max(1, int(math.Round(float64(p.burst)*p.share(at)))) - 1
		return at
	}
	at := p.single
	p.single = p.after(at)
	return at
}

// after draws when the next independent arrival is. That of a rate that changes is the first that a dice keeps
// of those that come at the highest rate (thinning: Lewis and Shedler 1979).
func (p *pacer) after(at float64) float64 {
	for {
		at += p.gap()
		if p.kind != Day && p.level == 1 || !(at < p.end) || p.seed.of(p.gaps, drawArrival).unit()*p.rate < p.busy(at) {
			return at
		}
	}
}

// risen is the share of the arrivals that there is at a time in seconds.
func (p *pacer) risen(at float64) float64 {
	switch {
	case at >= p.until:
		return 1
	case at <= p.from:
		return p.level
	}
	return p.level + (1-p.level)*(at-p.from)/(p.until-p.from)
}

// quietest is at which share of a day it is quietest; it is busiest half a day later.
const quietest = 4.0 / 24

// busy is the rate, per second, at a time in seconds.
func (p *pacer) busy(at float64) float64 {
	if p.kind != Day {
		return p.rate * p.risen(at)
	}
	return p.low + (p.rate-p.low)*(1-math.Cos(2*math.Pi*(at/p.day-quietest)))/2
}

// share is the part of a burst that comes at a time in seconds.
func (p *pacer) share(at float64) float64 {
	if p.kind == Day {
		return p.busy(at) / p.rate
	}
	return p.risen(at)
}

// gap draws the time between two independent arrivals.
func (p *pacer) gap() float64 {
	if p.rate <= 0 {
		return math.Inf(1)
	}
	p.gaps++
	return -math.Log(p.seed.of(p.gaps).unit()) / p.rate
}
