package lookup

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxFailures are those after which Redis is not asked for a while.
	MaxFailures = 5
	// The same holds after half of the calls of a window failed, if there were enough of them: a Redis
	// that is now and then in time is no better.
	window   = 2 * time.Second
	minCalls = 20
	// pause is that while, and up to half as long again, so that replicas do not come back
	// together, but all within the 1.2 s that a burst of requests is worth (gateway/limits).
	pause = 700 * time.Millisecond
	// A fall within shortStay of the return doubles the pause, up to maxPause, so that a Redis
	// which is about as late as the budget does not come and go every second.
	maxPause  = 8 * time.Second
	shortStay = 5 * time.Second
)

// health says whether Redis answers, and when one that does not is probed.
type health struct {
	away atomic.Bool // written under mu

	mu       sync.Mutex
	failures int // in a row
	outcomes outcomes
	until    time.Time
	pause    time.Duration // of this time away
	back     time.Time     // when the last pause ended
}

func (g *health) answered(now time.Time) {
	g.mu.Lock()
	g.failures = 0
	g.outcomes.at(now).good++
	g.mu.Unlock()
}

// failed reports whether Redis is not asked any more because of this failure.
func (g *health) failed(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures++
	g.outcomes.at(now).bad++
	if g.away.Load() || g.failures < MaxFailures && !g.outcomes.mostlyBad() {
		return false
	}
	if g.back.IsZero() || now.Sub(g.back) >= shortStay {
		g.pause = pause
	} else {
		g.pause = min(max(2*g.pause, pause), maxPause)
	}
	g.scheduleProbe(now)
	g.away.Store(true)
	return true
}

// scheduleProbe begins a pause. The caller holds mu.
func (g *health) scheduleProbe(now time.Time) { g.until = now.Add(g.pause + rand.N(g.pause/2)) }

// probeDue says whether Redis should be tried again.
func (g *health) probeDue(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.away.Load() && !now.Before(g.until)
}

// probed ends the pause after a good probe, or begins another.
func (g *health) probed(good bool, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if good {
		g.failures, g.outcomes, g.back = 0, outcomes{}, now
		g.away.Store(false)
		return
	}
	if g.away.Load() {
		g.scheduleProbe(now)
	}
}

// outcomes counts the answers and failures of the last window, in eighths of it.
type outcomes struct {
	began  time.Time // of the eighth that is counted in now
	newest int
	parts  [8]tally
}

type tally struct{ good, bad int }

// at is the part that now falls in. Parts that are older than the window are emptied.
func (r *outcomes) at(now time.Time) *tally {
	const part = window / time.Duration(len(r.parts))
	if now.Sub(r.began) >= window {
		*r = outcomes{began: now}
	}
	for ; now.Sub(r.began) >= part; r.began = r.began.Add(part) {
		r.newest = (r.newest + 1) % len(r.parts)
		r.parts[r.newest] = tally{}
	}
	return &r.parts[r.newest]
}

// mostlyBad says whether at least minCalls calls were made and half of them failed.
func (r *outcomes) mostlyBad() bool {
	var all tally
	for _, p := range r.parts {
		all.good += p.good
		all.bad += p.bad
	}
	return all.good+all.bad >= minCalls && all.bad >= all.good
}
