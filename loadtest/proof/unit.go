package proof

import (
	"math"
	"strconv"
	"strings"
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
			return fixed(v, 0)
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
	digits := decimals(mean)
	text := fixed(mean, digits) + " ± " + fixed(sd, max(digits, min(decimals(sd)-1, 3)))
	switch u {
	case times:
		return "× " + text
	case plain:
		return text
	}
	return text + " " + unit
}

// number writes three digits, and all that are before the point.
func number(v float64) string { return fixed(v, decimals(v)) }

// decimals are the digits behind the point that a number of three digits has.
func decimals(v float64) int {
	switch a := math.Abs(v); {
	case a == 0 || a >= 99.95:
		return 0
	case a >= 9.995:
		return 1
	case a >= 0.9995:
		return 2
	}
	return 3
}

// fixed writes a number with so many digits behind the point, and commas between thousands.
func fixed(v float64, digits int) string {
	text := strconv.FormatFloat(v, 'f', digits, 64)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	return sign + whole
}
