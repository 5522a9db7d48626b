package loadtest

import (
	"math"
	"strconv"
	"strings"
)

// unit says how a number is printed.
type unit string

const (
	counted unit = ""
	plain   unit = "1" // not a whole number
	millis  unit = "ms"
	seconds unit = "s"
	percent unit = "%" // of 0..1
	dollars unit = "$"
)

// label is the unit behind a metric's name.
func (u unit) label() string {
	if u == counted || u == plain {
		return ""
	}
	return string(u)
}

// text prints a number without its unit.
func (u unit) text(v float64) string {
	switch u {
	case counted:
		return whole(v)
	case percent:
		if p := 100 * v; p != 0 && math.Abs(p) < 0.995 {
			return strconv.FormatFloat(p, 'f', 2, 64)
		}
		return strings.TrimSuffix(strconv.FormatFloat(100*v, 'f', 1, 64), ".0")
	case dollars:
		if a := math.Abs(v); a >= 1 && a < 9999.995 {
			return grouped(strconv.FormatFloat(v, 'f', 2, 64))
		}
	}
	return digits3(v)
}

// whole prints a count: exactly, until it has eight digits.
func whole(v float64) string {
	if math.Abs(v) >= 1e7 {
		return millions(v)
	}
	return grouped(strconv.FormatFloat(v, 'f', 0, 64))
}

// digits3 prints a number with three digits or all that are before the point.
func digits3(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 1e7:
		return millions(v)
	case a >= 99.95:
		return grouped(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.9995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a >= 0.0005:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'e', 0, 64)
}

// millions prints a number that has no room otherwise.
func millions(v float64) string {
	if math.Abs(v) >= 1e12 {
		return strconv.FormatFloat(v, 'e', 1, 64)
	}
	return grouped(strconv.FormatFloat(v/1e6, 'f', 1, 64)) + "M"
}

// grouped puts commas between thousands.
func grouped(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	digits, rest, point := strings.Cut(s, ".")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if point {
		rest = "." + rest
	}
	return sign + digits + rest
}

// times says how many times b is in a, in at most five characters: "=" for no
// difference that shows, "" when there is no telling.
func times(a, b float64) string {
	if b == 0 || a < 0 || b < 0 {
		return ""
	}
	switch q := a / b; {
	case finite(q) != q:
		return ""
	case q > 0.995 && q < 1.005:
		return "="
	case q < 0.005 && a > 0:
		return "×~0"
	case q < 0.995:
		return "×" + strconv.FormatFloat(q, 'f', 2, 64)
	case q < 9.95:
		return "×" + strconv.FormatFloat(q, 'f', 2, 64)
	case q < 999.5:
		return "×" + strconv.FormatFloat(q, 'f', 0, 64)
	}
	return "×>999"
}
