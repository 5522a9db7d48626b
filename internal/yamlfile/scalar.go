package yamlfile

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Scalar returns the value as it is written when it is of one of the kinds (of any without kinds), and
// otherwise says what is wanted.
func (v Value) Scalar(want string, kinds ...Kind) (written string, ok bool) {
	switch {
	case !v.reads():
		return "", false
	case v.IsScalar() && (len(kinds) == 0 || slices.Contains(kinds, kindOf(v.node))):
		return v.node.Value, true
	}
	v.Fail("want %s, got %s", want, kindOf(v.node))
	return "", false
}

// text reads a string that YAML does not take for something else; an opaque one may look so: a digest is like a number.
func (v Value) text(opaque bool) (s string, ok bool) {
	if v.IsScalar() && !opaque && kindOf(v.node) != KindText {
		v.Fail("want text, got %s; put it in quotes", kindOf(v.node))
		return "", false
	}
	return v.Scalar("text")
}

// choice reads one of a few words; hint is for who chose another.
func (v Value) choice(to *string, words []string, hint string) {
	want := "one of " + strings.Join(words, ", ")
	switch s, ok := v.Scalar(want, KindText); {
	case !ok:
	case !slices.Contains(words, s):
		v.Fail("want %s%s", want, hint)
	default:
		*to = s
	}
}

// bool reads true or false.
func (v Value) bool(to *bool) {
	if s, ok := v.Scalar("true or false", KindTruth); ok {
		*to = strings.EqualFold(s, "true")
	}
}

// measure is how a value of lo … hi is read.
type measure[T int | int64 | float64 | time.Duration] struct {
	kind   string // what it is, for a value of another kind
	form   string // how it is written, for one that cannot be parsed
	kinds  []Kind // as in [Value.Scalar]
	lo, hi T
	bounds string // lo … hi, as people write it
	parse  func(string) (T, bool)
}

// read reads a value that has bounds.
func read[T int | int64 | float64 | time.Duration](v Value, to *T, m measure[T]) {
	s, ok := v.Scalar(m.kind, m.kinds...)
	if !ok {
		return
	}
	switch x, ok := m.parse(s); {
	case !ok:
		v.Fail("want %s", m.form)
	case x < 0 && m.lo >= 0:
		v.Fail("must not be negative; want %s", m.bounds)
	case x < m.lo || x > m.hi:
		v.Fail("out of range; want %s", m.bounds)
	default:
		*to = x
	}
}

// whole reads a decimal whole number of lo … hi.
func (v Value) whole(to *int, lo, hi int) {
	bounds := strconv.Itoa(lo) + " … " + strconv.Itoa(hi)
	read(v, to, measure[int]{"a whole number", "a whole number in plain decimal digits, " + bounds, []Kind{KindNumber}, lo, hi, bounds,
		func(s string) (int, bool) { n, err := strconv.Atoi(s); return n, err == nil }})
}

// Number reads a decimal number of lo … hi.
func (v Value) Number(to *float64, lo, hi float64) {
	bounds := short(lo) + " … " + short(hi)
	read(v, to, measure[float64]{"a number", "a plain decimal number, " + bounds, []Kind{KindNumber}, lo, hi, bounds, func(s string) (float64, bool) {
		x, err := strconv.ParseFloat(s, 64)
		return x + 0, err == nil && !math.IsNaN(x) && !strings.ContainsAny(s, "xX_") // no −0
	}})
}

func short(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// duration reads a duration of lo … hi with its unit.
func (v Value) duration(to *time.Duration, lo, hi time.Duration) {
	read(v, to, measure[time.Duration]{`a duration such as "5s"`, `a duration with its unit, such as "5s" or "1500ms"`, nil, lo, hi, Short(lo) + " … " + Short(hi),
		func(s string) (time.Duration, bool) { d, err := time.ParseDuration(s); return d, err == nil }})
}

// Short prints a duration without trailing zero units: 10m, not 10m0s.
func Short(d time.Duration) string {
	s := d.String()
	if t, ok := strings.CutSuffix(s, "m0s"); ok {
		s = t + "m"
	}
	if t, ok := strings.CutSuffix(s, "h0m"); ok {
		s = t + "h"
	}
	return s
}

// units of sizes; the longest suffix comes first.
var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1}}

// size reads a number of bytes, with or without a unit.
func (v Value) size(to *int64, lo, hi int64) {
	bounds := strconv.FormatInt(lo, 10) + " … " + strconv.FormatInt(hi, 10) + " bytes"
	read(v, to, measure[int64]{"a size such as 4MiB", "bytes or a size such as 16KiB or 4MiB", nil, lo, hi, bounds, parseSize})
}

// parseSize reads bytes, such as 4096 or 4MiB. The number may be negative.
func parseSize(s string) (bytes int64, ok bool) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimRight(digits, " "), 10, 64)
		if err != nil || n < math.MinInt64/u.bytes || n > math.MaxInt64/u.bytes {
			return 0, false
		}
		return n * u.bytes, true
	}
	return 0, false
}
