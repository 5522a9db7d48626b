package health

import (
	"cmp"
	"time"
)

// Condition is what is wrong with a backend, in logs and status.
type Condition string

// The conditions. A Silent or Hung backend is suspect.
const (
	Well   Condition = "well"
	Silent Condition = "answers nothing"
	Hung   Condition = "stands still"
	Frozen Condition = "its metrics stand still, it answers"
	Lying  Condition = "its KV usage never changes"
	Shared Condition = "several engines answer at its address; give each an address of its own"
)

// Condition returns the first condition that holds.
func (v *Monitor) Condition() Condition {
	switch {
	case v.IsSilent():
		return Silent
	case v.IsSuspect():
		return Hung
	case v.stuck, v.frozen:
		return Frozen
	case v.lying:
		return Lying
	case v.IsShared(v.last.At):
		return Shared
	}
	return Well
}

// tellEvery is the shortest time between two lines about the condition of a backend.
const tellEvery = time.Minute

// Changes are the changes of a backend's condition that nobody was told of yet. The zero value is a backend that is well.
type Changes struct {
	told, last Condition // "" is Well
	at         time.Time // when it was told
	count      int
}

// Note takes the present condition, and returns the one that was told last and the number of changes since then: 0 if
// there is nothing to tell now. A condition that comes and goes is told of once a minute.
func (c *Changes) Note(is Condition, now time.Time) (was Condition, changes int) {
	was = cmp.Or(c.told, Well)
	if is != cmp.Or(c.last, Well) {
		c.last = is
		c.count++
	}
	if c.count == 0 || now.Sub(c.at) < tellEvery {
		return was, 0
	}
	changes = c.count
	c.told, c.at, c.count = is, now, 0
	return was, changes
}
