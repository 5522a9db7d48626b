package conns

import "time"

const (
	// minIdle is the idle time in a crowded table. It is at least the time that a client has for its first
	// header.
	minIdle = 5 * time.Second
	// sweepInterval is the time between two searches for idle connections.
	sweepInterval = time.Second
)

// idleTime is how long a connection may be idle when open of limit slots are used: longest while the table is
// at most half full, minIdle (or longest, if that is less) from three quarters on, and linear between.
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

// nearlyFull reports whether answers should close their connections: three quarters of the slots are used.
func nearlyFull(open, limit int) bool { return 4*open >= 3*limit }
