package sharing

import (
	"time"

	"github.com/foregate/foregate/loadtest/virtual/eventloop"
)

const (
	// askedAgain is how long after Redis is back the cache is asked again: replicas that gave it up try it each
	// 0.7 to 1.05 s.
	askedAgain = 500 * time.Millisecond
	// localAfter is how long a replica believes in others that it hears nothing of.
	localAfter = 1500 * time.Millisecond
	// heardAgain and sharedAgain are how long after Redis is back a replica hears of others, at the next exchange, and
	// shares with them, after three.
	heardAgain, sharedAgain = 250 * time.Millisecond, 1250 * time.Millisecond
)

// Link is the way to Redis, which all replicas lose and get back at once. While it is lost, Redis refuses
// connections; what it holds is there afterwards. The zero value with a loop has never been lost.
type Link struct {
	Loop       *eventloop.Loop
	away       bool
	was        bool // it was lost at least once
	lost, back time.Duration
}

// Lose cuts the way.
func (l *Link) Lose() { l.away, l.was, l.lost = true, true, l.Loop.Elapsed() }

// Restore opens it again.
func (l *Link) Restore() { l.away, l.back = false, l.Loop.Elapsed() }

// Away reports whether it is lost now.
func (l *Link) Away() bool { return l.away }

// Sharing reports whether replicas exchange what they know.
func (l *Link) Sharing() bool { return !l.away && l.since(sharedAgain) }

// Local reports whether each replica is alone: it has heard nothing of others for too long.
func (l *Link) Local() bool {
	if l.away {
		return l.Loop.Elapsed()-l.lost >= localAfter
	}
	return l.was && l.back-l.lost >= localAfter && !l.since(heardAgain)
}

// asked reports whether the cache is asked.
func (l *Link) asked() bool { return !l.away && l.since(askedAgain) }

// since reports whether the way has been open for some time.
func (l *Link) since(d time.Duration) bool { return !l.was || l.Loop.Elapsed()-l.back >= d }

// age is how old that is which replicas read at an interval.
func (l *Link) age(interval time.Duration) time.Duration {
	now := l.Loop.Elapsed()
	last := now - now%interval
	if l.was && (l.away || last < l.back) && last >= l.lost {
		last = (l.lost - 1).Truncate(interval) // the reading at the time of the loss failed
	}
	return now - last
}
