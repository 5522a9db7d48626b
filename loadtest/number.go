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
		return Fixed(v, 0)
	case percent:
		return Number(100 * v)
	}
	return Number(v)
}

// times says how many times b is in a: "=" for no difference that shows, "" when there is no telling.
func times(a, b float64) string {
	q := a / b
	switch {
	case b <= 0 || a < 0 || finite(q) != q:
		return ""
	case q > 0.995 && q < 1.005:
		return "="
	}
	return "×" + Number(q)
}

// Number writes three digits, and all that are before the point.
func Number(v float64) string { return Fixed(v, Decimals(v)) }

// Decimals are the digits behind the point that a number of three digits has.
func Decimals(v float64) int {
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

// Fixed writes a number with so many digits behind the point, and commas between thousands.
func Fixed(v float64, digits int) string {
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
