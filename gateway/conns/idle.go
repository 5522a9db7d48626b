package conns

import "time"

const (
	// minIdle is how long a connection may be idle where the table is crowded. It is no less
	// than a client has for the header of its first request.
	minIdle = 5 * time.Second
	// sweepInterval is how often connections that are idle for too long are looked for.
	sweepInterval = time.Second
)

// idleTime is how long a connection may be idle while so many of limit are open: longest while the
// table is at most half full, minIdle (or longest, where that is less) from three quarters on, and
// linear between.
func idleTime(open, limit int, longest time.Duration) time.Duration {
	if longest <= minIdle || 2*open <= limit {
		return longest
	}
	if nearlyFull(open, limit) {
		return minIdle
	}
	left := float64(3*limit-4*open) / float64(limit) // 1 at half, 0 at three quarters
	return minIdle + time.Duration(left*float64(longest-minIdle))
}

// nearlyFull reports whether answers should end their connections: three quarters of the places are
// taken.
func nearlyFull(open, limit int) bool { return 4*open >= 3*limit }
