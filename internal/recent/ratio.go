// Package recent counts over the last minutes, for gauges of the present state. Start at [Ratio], whose
// callers lock and supply the time, and [Gauges], which show one for each route.
package recent

import "time"

const (
	// Window is the time over which is counted.
	Window = 5 * time.Minute
	// Step is the resolution: counts expire in steps, so up to one Step less than [Window] is covered.
	Step = Window / 30
)

// Ratio is a part of a whole, both counted in the last [Window]. The zero value is empty. It is not safe for
// concurrent use.
type Ratio struct {
	steps [int(Window / Step)]struct{ part, whole uint64 }
	began time.Time // start of the newest step
	now   int       // index of the newest step
}

// Add adds to the whole and to the part.
func (r *Ratio) Add(now time.Time, part, whole uint64) {
	r.advance(now)
	r.steps[r.now].part += part
	r.steps[r.now].whole += whole
}

// Value is the share; ok is false, and the share 0, if nothing was counted.
func (r *Ratio) Value(now time.Time) (share float64, ok bool) {
	r.advance(now)
	var part, whole uint64
	for _, c := range r.steps {
		part += c.part
		whole += c.whole
	}
	if whole == 0 {
		return 0, false
	}
	return float64(part) / float64(whole), true
}

// advance empties the steps that are too old.
func (r *Ratio) advance(now time.Time) {
	if now.Sub(r.began) >= Window {
		*r = Ratio{began: now}
	}
	for ; now.Sub(r.began) >= Step; r.began = r.began.Add(Step) {
		r.now = (r.now + 1) % len(r.steps)
		r.steps[r.now].part, r.steps[r.now].whole = 0, 0
	}
}
