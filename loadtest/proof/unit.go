package proof

import (
	"math"

	"github.com/foregate/foregate/loadtest"
)

// Unit says how a figure is written.
type Unit string

// The units of figures.
const (
	milliseconds Unit = "ms"
	seconds      Unit = "s"
	microseconds Unit = "µs"
	share        Unit = "%" // of 0 … 1
	dollars      Unit = "$"
	plain        Unit = "" // a count, or a number without a unit
	perSecond    Unit = "/s"
	times        Unit = "×"
)

// Text writes a figure with its unit, with three digits.
func (u Unit) Text(v float64) string {
	switch u {
	case share:
		return number(100*v) + " %"
	case dollars:
		return number(v) + " $"
	case milliseconds:
		if math.Abs(v) >= 1000 {
			return number(v/1000) + " s"
		}
		return number(v) + " ms"
	case times:
		return "× " + number(v)
	case plain:
		if v == math.Trunc(v) {
			return loadtest.Fixed(v, 0)
		}
		return number(v)
	}
	return number(v) + " " + string(u)
}

// Spread writes a mean with the standard deviation, where there is one.
func (u Unit) Spread(s Spread) string {
	if s.N < 2 || s.SD == 0 {
		return u.Text(s.Mean)
	}
	scale, unit := 1.0, string(u)
	switch {
	case u == share:
		scale = 100
	case u == milliseconds && math.Abs(s.Mean) >= 1000:
		scale, unit = 0.001, "s"
	}
	mean, sd := s.Mean*scale, s.SD*scale
	digits := loadtest.Decimals(mean)
	text := loadtest.Fixed(mean, digits) + " ± " + loadtest.Fixed(sd, max(digits, min(loadtest.Decimals(sd)-1, 3)))
	switch u {
	case times:
		return "× " + text
	case plain:
		return text
	}
	return text + " " + unit
}

// number writes three digits, and all that are before the point.
func number(v float64) string { return loadtest.Number(v) }
