package loadtest

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// scalar returns the value as it is written when its type is one of tags, and
// otherwise says what is wanted.
func (p spot) scalar(want string, tags ...string) (string, bool) {
	if !p.given() || p.node.Kind == yaml.AliasNode {
		return "", false
	}
	if p.node.Kind == yaml.ScalarNode {
		for _, t := range tags {
			if p.node.ShortTag() == t {
				return p.node.Value, true
			}
		}
	}
	p.fail("want %s, got %s", want, kindOf(p.node))
	return "", false
}

// number is a finite decimal number of lo … hi.
func (p spot) number(to *float64, lo, hi float64) {
	v, ok := p.scalar("a number", "!!int", "!!float")
	if !ok {
		return
	}
	x, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsNaN(x) || x < lo || x > hi {
		p.fail("want a decimal number of %v … %v", lo, hi)
		return
	}
	*to = x + 0 // no −0
}

// whole is a decimal whole number of lo … hi.
func (p spot) whole(to *int, lo, hi int) {
	v, ok := p.scalar("a whole number", "!!int", "!!float")
	if !ok {
		return
	}
	x, err := strconv.Atoi(v)
	if err != nil || x < lo || x > hi {
		p.fail("want a whole number of %d … %d", lo, hi)
		return
	}
	*to = x
}

// seed is any number that fits.
func (p spot) seed(to *uint64) {
	v, ok := p.scalar("a whole number", "!!int", "!!float")
	if !ok {
		return
	}
	x, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		p.fail("want a whole number of 0 … %d", uint64(math.MaxUint64))
		return
	}
	*to = x
}

// span is a duration of at least lo.
func (p spot) span(to *time.Duration, lo time.Duration) {
	v, ok := p.scalar("a duration such as 90s or 10m", "!!str", "!!int", "!!float")
	if !ok {
		return
	}
	d, err := time.ParseDuration(v)
	switch {
	case err != nil:
		p.fail("want a duration with its unit, such as 500ms, 90s or 10m")
	case d < lo || d > maxDuration:
		p.fail("want a duration of %s … %s", tidy(lo), tidy(maxDuration))
	default:
		*to = d
	}
}

// tidy prints a duration without its empty tail: 10m, not 10m0s.
func tidy(d time.Duration) string {
	s := d.String()
	if t, ok := strings.CutSuffix(s, "m0s"); ok {
		s = t + "m"
	}
	if t, ok := strings.CutSuffix(s, "h0m"); ok {
		s = t + "h"
	}
	return s
}

// truth is true or false.
func (p spot) truth(to *bool) {
	if v, ok := p.scalar("true or false", "!!bool"); ok {
		*to = strings.EqualFold(v, "true")
	}
}

// choice is one of a few words.
func (p spot) choice(to *string, words ...string) {
	want := "one of " + strings.Join(words, ", ")
	v, ok := p.scalar(want, "!!str")
	if !ok {
		return
	}
	for _, w := range words {
		if v == w {
			*to = v
			return
		}
	}
	p.fail("want %s", want)
}

var idShape = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// id is a word that a header, a label or a path can hold.
func (p spot) id(to *string) {
	v, ok := p.scalar("text", "!!str")
	if !ok {
		return
	}
	if !idShape.MatchString(v) {
		p.fail("want 1 … 64 of A-Z a-z 0-9 . _ : -")
		return
	}
	*to = v
}

// oneLine is text of one line, for people.
func (p spot) oneLine(to *string, most int) {
	v, ok := p.scalar("text", "!!str")
	if !ok {
		return
	}
	if v == "" || len(v) > most || v != strings.TrimSpace(v) || strings.ContainsFunc(v, unprintable) {
		p.fail("want one line of 1 … %d bytes, without control characters or outer spaces", most)
		return
	}
	*to = v
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// prose is text of any lines.
func (p spot) prose(to *string, most int) {
	v, ok := p.scalar("text", "!!str")
	if !ok {
		return
	}
	if len(v) > most {
		p.fail("want at most %d bytes", most)
		return
	}
	*to = strings.TrimSpace(v)
}

// settings lays text over to, each value as it is written.
func (p spot) settings(to map[string]string) {
	b := p.fields()
	if len(b.order) > 256 {
		p.fail("has %d entries; want at most 256", len(b.order))
		return
	}
	for _, name := range b.order {
		v, ok := b.at(name).scalar("a value", "!!str", "!!int", "!!float", "!!bool", "!!timestamp")
		switch {
		case !ok:
		case len(v) > 4096:
			b.at(name).fail("want at most 4096 bytes")
		default:
			to[name] = v
		}
	}
}

// spread is a number, or the fields of a [Spread], all of lo … hi.
func (p spot) spread(to *Spread, lo, hi float64) {
	if !p.given() || p.node.Kind == yaml.AliasNode {
		return
	}
	if p.node.Kind == yaml.ScalarNode {
		var s Spread
		if _, ok := p.scalar("a number, {min, max} or {p50, p95}", "!!int", "!!float"); ok {
			p.number(&s.Fixed, lo, hi)
			*to = s
		}
		return
	}
	b := p.fields()
	var s Spread
	least, most, p50, p95 := b.at("min"), b.at("max"), b.at("p50"), b.at("p95")
	before := len(p.problems)
	least.number(&s.Min, lo, hi)
	most.number(&s.Max, lo, hi)
	p50.number(&s.P50, math.Max(lo, 1e-6), hi)
	p95.number(&s.P95, math.Max(lo, 1e-6), hi)
	b.done()
	if b.entries == nil || len(p.problems) > before {
		return
	}
	switch {
	case p50.given() != p95.given():
		p.fail("a lognormal needs both p50 and p95")
	case !p50.given() && (!least.given() || !most.given()):
		p.fail("want a number, {min, max} or {p50, p95}")
	case most.given() && s.Max < s.Min:
		most.fail("is below min; want at least %v", s.Min)
	case p50.given() && s.P95 < s.P50:
		p95.fail("is below p50; want at least %v", s.P50)
	case p50.given() && s.Min > s.P50:
		least.fail("is above p50; want at most %v", s.P50)
	case p50.given() && most.given() && s.Max < s.P50:
		most.fail("is below p50; want at least %v", s.P50)
	default:
		*to = s
	}
}
