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
	case v.IsScalar() && (len(kinds) == 0 || slices.Contains(kinds, v.node.kind)):
		return v.node.text, true
	}
	v.Fail("want %s, got %s", want, v.node.kind)
	return "", false
}

// Text reads a string that YAML does not take for something else.
func (v Value) Text(to *string) {
	switch {
	case !v.reads():
	case v.IsScalar() && v.node.kind == KindText:
		*to = v.node.text
	case v.IsScalar():
		v.Fail("want text, got %s; put it in quotes", v.node.kind)
	default:
		v.Fail("want text, got %s", v.node.kind)
	}
}

// Opaque reads a scalar as it is written: a digest may look like a number.
func (v Value) Opaque(to *string) {
	if s, ok := v.Scalar("text"); ok {
		*to = s
	}
}

// Texts reads a list of strings. One that is refused is "" in it.
func (v Value) Texts(to *[]string) {
	if v.reads() {
		*to = []string{}
	}
	for _, item := range v.Items() {
		var s string
		item.Text(&s)
		*to = append(*to, s)
	}
}

// Choice reads one of a few words.
func (v Value) Choice(to *string, words ...string) {
	want := "one of " + strings.Join(words, ", ")
	switch s, ok := v.Scalar(want, KindText); {
	case !ok:
	case !slices.Contains(words, s):
		v.Fail("want %s", want)
	default:
		*to = s
	}
}

// Bool reads true or false.
func (v Value) Bool(to *bool) {
	if s, ok := v.Scalar("true or false", KindTruth); ok {
		*to = strings.EqualFold(s, "true")
	}
}

// Whole reads a decimal whole number of lo … hi.
func (v Value) Whole(to *int, lo, hi int) {
	s, ok := v.Scalar("a whole number", KindNumber)
	if !ok {
		return
	}
	x, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		v.Fail("want a whole number in plain decimal digits, %d … %d", lo, hi)
	case x < 0 && lo >= 0:
		v.Fail("must not be negative; want %d … %d", lo, hi)
	case x < int64(lo) || x > int64(hi):
		v.Fail("out of range; want %d … %d", lo, hi)
	default:
		*to = int(x)
	}
}

// Number reads a decimal number of lo … hi.
func (v Value) Number(to *float64, lo, hi float64) {
	s, ok := v.Scalar("a number", KindNumber)
	if !ok {
		return
	}
	x, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || math.IsNaN(x) || strings.ContainsAny(s, "xX_"):
		v.Fail("want a plain decimal number, %g … %g", lo, hi)
	case x < 0 && lo >= 0:
		v.Fail("must not be negative; want %g … %g", lo, hi)
	case x < lo || x > hi:
		v.Fail("out of range; want %g … %g", lo, hi)
	default:
		*to = x + 0 // no −0
	}
}

// Duration reads a duration of lo … hi with its unit.
func (v Value) Duration(to *time.Duration, lo, hi time.Duration) {
	s, ok := v.Scalar(`a duration such as "5s"`)
	if !ok {
		return
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		v.Fail(`want a duration with its unit, such as "5s" or "1500ms"`)
	case d < 0:
		v.Fail("must not be negative; want %s … %s", Short(lo), Short(hi))
	case d < lo || d > hi:
		v.Fail("out of range; want %s … %s", Short(lo), Short(hi))
	default:
		*to = d
	}
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

// Size reads a number of bytes, with or without a unit.
func (v Value) Size(to *int64, lo, hi int64) {
	s, ok := v.Scalar("a size such as 4MiB")
	if !ok {
		return
	}
	n, ok := ParseSize(s)
	switch {
	case ok && n < 0:
		v.Fail("must not be negative; want %d … %d bytes", lo, hi)
	case !ok:
		v.Fail("want bytes or a size such as 16KiB or 4MiB")
	case n < lo || n > hi:
		v.Fail("out of range; want %d … %d bytes", lo, hi)
	default:
		*to = n
	}
}

// ParseSize reads bytes, such as 4096 or 4MiB. The number may be negative.
func ParseSize(s string) (bytes int64, ok bool) {
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
