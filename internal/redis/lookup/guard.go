package lookup

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// FailuresInARow are those after which Redis is not asked for a while.
	FailuresInARow = 5
	// So it is after half of the questions of a window failed, if there were enough of them: a Redis
	// that is now and then in time is no better.
	window = 2 * time.Second
	enough = 20
	// pause is that while, and up to half as long again, so that replicas do not come back
	// together, but all within the 1.2 s that a burst of requests is worth (gateway/limits).
	pause = 700 * time.Millisecond
	// A fall within shortStay of the return doubles the pause, up to maxPause, so that a Redis
	// which is about as late as the budget does not come and go every second.
	maxPause  = 8 * time.Second
	shortStay = 5 * time.Second
)

// guard keeps requests from a Redis that does not answer.
type guard struct {
	away atomic.Bool // written under mu

	mu       sync.Mutex
	failures int // in a row
	recent   recent
	until    time.Time
	pause    time.Duration // of this time away
	back     time.Time     // when the way was opened last
}

func (g *guard) answered(now time.Time) {
	g.mu.Lock()
	g.failures = 0
	g.recent.at(now).good++
	g.mu.Unlock()
}

// failed says whether this failure closed the way.
func (g *guard) failed(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures++
	g.recent.at(now).bad++
	if g.away.Load() || g.failures < FailuresInARow && !g.recent.mostlyBad() {
		return false
	}
	if g.back.IsZero() || now.Sub(g.back) >= shortStay {
		g.pause = pause
	} else {
		g.pause = min(max(2*g.pause, pause), maxPause)
	}
	g.rest(now)
	g.away.Store(true)
	return true
}

// rest has Redis left alone for a pause. The caller holds mu.
func (g *guard) rest(now time.Time) { g.until = now.Add(g.pause + rand.N(g.pause/2)) }

// due says whether Redis should be tried again.
func (g *guard) due(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.away.Load() && !now.Before(g.until)
}

// tried opens the way after a good try, or waits anew.
func (g *guard) tried(good bool, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if good {
		g.failures, g.recent, g.back = 0, recent{}, now
		g.away.Store(false)
		return
	}
	if g.away.Load() {
		g.rest(now)
	}
}

// recent counts the answers and failures of the last window, in eighths of it.
type recent struct {
	began  time.Time // of the eighth that is counted in now
	newest int
	parts  [8]tally
}

type tally struct{ good, bad int }

// at is the part that now falls in. Parts that are older than the window are emptied.
func (r *recent) at(now time.Time) *tally {
	const part = window / time.Duration(len(r.parts))
	if now.Sub(r.began) >= window {
		*r = recent{began: now}
	}
	for ; now.Sub(r.began) >= part; r.began = r.began.Add(part) {
		r.newest = (r.newest + 1) % len(r.parts)
		r.parts[r.newest] = tally{}
	}
	return &r.parts[r.newest]
}

// mostlyBad says whether at least half of enough questions failed.
func (r *recent) mostlyBad() bool {
	var all tally
	for _, p := range r.parts {
		all.good += p.good
		all.bad += p.bad
	}
	return all.good+all.bad >= enough && all.bad >= all.good
}
