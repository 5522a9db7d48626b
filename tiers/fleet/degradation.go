package fleet

import "time"

// Mode is the degradation level of this replica: how far it can rely on shared state.
type Mode int

// The modes, from the lowest to the highest level of sharing.
const (
	Local    Mode = iota // alone: no Redis, or no successful heartbeat for 1.5 s; it owns every backend
	Degraded             // not every tick succeeds; the members are those of at most 1.5 s ago
	Shared               // the members are those of the last tick
)

// modes lists all modes, for the gauge.
var modes = []Mode{Local, Degraded, Shared}

// String is the mode's name in metrics and logs.
func (m Mode) String() string {
	switch m {
	case Shared:
		return "shared"
	case Degraded:
		return "degraded"
	default:
		return "local"
	}
}

const (
	// recoverTicks is how many ticks in a row must succeed before the mode is Shared again, and recoverTime for how long.
	recoverTicks = 3
	recoverTime  = 500 * time.Millisecond
)

// degradation decides between Shared and Degraded. One failed tick degrades, several successful ones in a row recover; at
// the start one is enough. A replica becomes Local by the age of the last successful tick ([view.mode]).
type degradation struct {
	failed    bool      // a tick has failed since the start
	goodTicks int       // successful ticks in a row, while below Shared
	goodSince time.Time // time of the first of them
}

// afterSuccess is the mode after a successful tick.
func (d *degradation) afterSuccess(was Mode, now time.Time) Mode {
	if was == Shared {
		return Shared
	}
	if d.goodTicks == 0 {
		d.goodSince = now
	}
	d.goodTicks++
	if d.failed && (d.goodTicks < recoverTicks || now.Sub(d.goodSince) < recoverTime) {
		return was
	}
	d.goodTicks = 0
	return Shared
}

// afterFailure is the mode after a failed tick.
func (d *degradation) afterFailure(was Mode) Mode {
	d.failed, d.goodTicks = true, 0
	return min(was, Degraded)
}
