package fleet

import "time"

const (
	// climbTicks is how many ticks in a row must go well before the way up.
	climbTicks = 3
	// minHold is how long they must go well, maxHold the most of it: a fall within
	// shortStay after a climb doubles it, so that a Redis that comes and goes is called
	// degraded instead of everything by turns.
	minHold   = 500 * time.Millisecond
	maxHold   = 4 * time.Second
	shortStay = 5 * time.Second
)

// ladder says when a rung is left upward: never at the first good tick, but at start. Down
// it goes at the first bad tick, and to Local by the age of the last good one ([view.mode]).
type ladder struct {
	good int           // ticks in a row that went well, while below Shared
	from time.Time     // when the first of them did
	top  time.Time     // when Shared was reached
	hold time.Duration // how long it must go well before the next climb; 0 before anything went wrong
}

// well is the rung after a tick that went well.
func (l *ladder) well(was Mode, now time.Time) Mode {
	if was == Shared {
		return Shared
	}
	if l.good == 0 {
		l.from = now
	}
	l.good++
	if l.hold > 0 && (l.good < climbTicks || now.Sub(l.from) < l.hold) {
		return was
	}
	l.good, l.top = 0, now
	return Shared
}

// ill is the rung after a tick that went wrong.
func (l *ladder) ill(was Mode, now time.Time) Mode {
	l.good = 0
	if was != Shared {
		l.hold = max(l.hold, minHold)
		return was
	}
	if l.hold > 0 && now.Sub(l.top) < shortStay {
		l.hold = min(2*l.hold, maxHold)
	} else {
		l.hold = minHold
	}
	return Degraded
}
