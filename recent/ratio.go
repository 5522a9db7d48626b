// Package recent counts over the last minutes, for gauges that tell what holds now. Start at [Share].
// Its callers hold the lock and bring the clock.
package recent

import "time"

const (
	// Window is how far back is counted.
	Window = 5 * time.Minute
	// Step is how long what is counted together is, and by how much less than [Window] may be told.
	Step = Window / 30
)

// Ratio is a part of a whole, both as counted in the last [Window]. The zero value is of nothing. It is
// not safe for concurrent use.
type Ratio struct {
	steps [int(Window / Step)]struct{ part, whole uint64 }
	began time.Time // of the newest
	now   int       // which is that
}

// Add counts more of the whole, and how much of that is the part.
func (s *Ratio) Add(now time.Time, part, whole uint64) {
	s.advance(now)
	s.steps[s.now].part += part
	s.steps[s.now].whole += whole
}

// Value is the share; ok is false, and the share 0, while nothing was counted.
func (s *Ratio) Value(now time.Time) (share float64, ok bool) {
	s.advance(now)
	var part, whole uint64
	for _, c := range s.steps {
		part += c.part
		whole += c.whole
	}
	if whole == 0 {
		return 0, false
	}
	return float64(part) / float64(whole), true
}

// advance empties the steps that have become too old.
func (s *Ratio) advance(now time.Time) {
	if now.Sub(s.began) >= Window {
		*s = Ratio{began: now}
	}
	for ; now.Sub(s.began) >= Step; s.began = s.began.Add(Step) {
		s.now = (s.now + 1) % len(s.steps)
		s.steps[s.now].part, s.steps[s.now].whole = 0, 0
	}
}
