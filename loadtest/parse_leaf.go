package loadtest

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/foregate/foregate/internal/yamlfile"
)

// readSeed reads any number that fits.
func readSeed(p yamlfile.Value, to *uint64) {
	v, ok := p.Scalar("a whole number", yamlfile.KindNumber)
	if !ok {
		return
	}
	x, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		p.Fail("want a whole number of 0 … %d", uint64(math.MaxUint64))
		return
	}
	*to = x
}

// readID reads a word that a header, a label or a path can hold.
func readID(p yamlfile.Value, to *string) {
	v, ok := p.Scalar("text", yamlfile.KindText)
	if !ok {
		return
	}
	if !isID(v) {
		p.Fail("want 1 … 64 of A-Z a-z 0-9 . _ : -")
		return
	}
	*to = v
}

func isID(s string) bool { return s != "" && len(s) <= 64 && yamlfile.Only(s, "._:-") }

// readLine reads text of one line, for people.
func readLine(p yamlfile.Value, to *string, maxBytes int) {
	v, ok := p.Scalar("text", yamlfile.KindText)
	if !ok {
		return
	}
	if v == "" || len(v) > maxBytes || v != strings.TrimSpace(v) || strings.ContainsFunc(v, unprintable) {
		p.Fail("want one line of 1 … %d bytes, without control characters or outer spaces", maxBytes)
		return
	}
	*to = v
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// readProse reads text of any lines.
func readProse(p yamlfile.Value, to *string, maxBytes int) {
	v, ok := p.Scalar("text", yamlfile.KindText)
	if !ok {
		return
	}
	if len(v) > maxBytes {
		p.Fail("want at most %d bytes", maxBytes)
		return
	}
	*to = strings.TrimSpace(v)
}

// readSettings lays text over to, each value as it is written.
func readSettings(p yamlfile.Value, to map[string]string) {
	b := p.Fields()
	if len(b.Names()) > 256 {
		p.Fail("has %d entries; want at most 256", len(b.Names()))
		return
	}
	for _, name := range b.Names() {
		v, ok := b.At(name).Scalar("a value", yamlfile.KindText, yamlfile.KindNumber, yamlfile.KindTruth)
		switch {
		case !ok:
		case len(v) > 4096:
			b.At(name).Fail("want at most 4096 bytes")
		default:
			to[name] = v
		}
	}
}

// readSpread reads a number, or the fields of a [Spread], all of lo … hi.
func readSpread(p yamlfile.Value, to *Spread, lo, hi float64) {
	if p.IsScalar() {
		var s Spread
		if _, ok := p.Scalar("a number, {min, max} or {p50, p95}", yamlfile.KindNumber); ok {
			p.Number(&s.Fixed, lo, hi)
			*to = s
		}
		return
	}
	b := p.Fields()
	var s Spread
	low, high, p50, p95 := b.At("min"), b.At("max"), b.At("p50"), b.At("p95")
	low.Number(&s.Min, lo, hi)
	high.Number(&s.Max, lo, hi)
	p50.Number(&s.P50, math.Max(lo, 1e-6), hi)
	p95.Number(&s.P95, math.Max(lo, 1e-6), hi)
	b.Done()
	if !b.Opened() || !low.Sound() || !high.Sound() || !p50.Sound() || !p95.Sound() {
		return
	}
	switch {
	case p50.IsSet() != p95.IsSet():
		p.Fail("a lognormal needs both p50 and p95")
	case !p50.IsSet() && (!low.IsSet() || !high.IsSet()):
		p.Fail("want a number, {min, max} or {p50, p95}")
	case high.IsSet() && s.Max < s.Min:
		high.Fail("is below min; want at least %v", s.Min)
	case p50.IsSet() && s.P95 < s.P50:
		p95.Fail("is below p50; want at least %v", s.P50)
	case p50.IsSet() && s.Min > s.P50:
		low.Fail("is above p50; want at most %v", s.P50)
	case p50.IsSet() && high.IsSet() && s.Max < s.P50:
		high.Fail("is below p50; want at least %v", s.P50)
	default:
		*to = s
	}
}

// readItems reads the members of a list of 1 … maxItems.
func readItems(p yamlfile.Value, maxItems int, each func(item yamlfile.Value)) {
	items := p.Items()
	if n := len(items); p.IsList() && (n == 0 || n > maxItems) {
		p.Fail("has %d entries; want 1 … %d", n, maxItems)
		return
	}
	for _, item := range items {
		each(item)
	}
}

// readOwn notes a name that an entry before has, too.
func readOwn[T any](p yamlfile.Value, list string, before []T, has func(T) bool) {
	if i := slices.IndexFunc(before, has); i >= 0 {
		p.Fail("is already that of %s[%d]", list, i)
	}
}

// readWeights notes a list in which nothing has a weight.
func readWeights[T any](p yamlfile.Value, list []T, weight func(T) float64) {
	if len(list) > 0 && !slices.ContainsFunc(list, func(x T) bool { return weight(x) > 0 }) {
		p.Fail("no weight is above 0; want at least one")
	}
}
