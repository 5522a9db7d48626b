package loadtest

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// The room of a plot. Its text is in these units too, so a page scales both.
const (
	plotWide, plotTall = 440.0, 236.0
	plotLeft, plotTop  = 54.0, 26.0
	plotRight, plotLow = 16.0, 34.0
)

// scale puts values on a line of the picture.
type scale struct {
	lo, hi   float64 // values, lo < hi; of a logarithmic one positive
	from, to float64 // where they are
	log      bool
}

// at is where a value is; what is out of range is put at the end.
func (s scale) at(v float64) float64 {
	lo, hi := s.lo, s.hi
	if s.log {
		v, lo, hi = math.Log(max(v, s.lo)), math.Log(lo), math.Log(hi)
	}
	share := min(max((v-lo)/(hi-lo), 0), 1)
	return s.from + share*(s.to-s.from)
}

// ticks are round values, about n of them.
func (s scale) ticks(n int) []float64 {
	if s.log {
		return s.logTicks(n)
	}
	step, out := roundStep((s.hi-s.lo)/float64(n)), []float64{}
	for i := math.Ceil(s.lo/step - 1e-9); i*step <= s.hi*(1+1e-9); i++ {
		out = append(out, i*step+0) // never −0
	}
	return out
}

// logTicks are powers of ten, with 2 and 5 or 5 between them where there is
// room, or with gaps where there is none.
func (s scale) logTicks(n int) []float64 {
	for _, between := range [][]float64{{1, 2, 5}, {1, 5}, {1}} {
		if out := s.decades(between, 1); len(out) <= n+3 {
			return out
		}
	}
	return s.decades([]float64{1}, int(math.Log10(s.hi/s.lo))/n+1)
}

// decades are multiples of every so many powers of ten.
func (s scale) decades(multiples []float64, every int) []float64 {
	out := []float64{}
	for e := int(math.Floor(math.Log10(s.lo))); e <= int(math.Ceil(math.Log10(s.hi))); e += every {
		for _, m := range multiples {
			if v := m * math.Pow10(e); v >= s.lo*(1-1e-9) && v <= s.hi*(1+1e-9) {
				out = append(out, v)
			}
		}
	}
	return out
}

// roundStep is the least of 1, 2, 5, 10 … that is no less than v.
func roundStep(v float64) float64 {
	if finite(v) != v || v <= 0 {
		return 1
	}
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*ten >= v*(1-1e-9) {
			return m * ten
		}
	}
	return 10 * ten
}

// upTo is a linear scale's end for values up to v: round, and never 0.
func upTo(v float64) float64 {
	if finite(v) != v || v <= 0 {
		return 1
	}
	step := roundStep(v / 5)
	return math.Ceil(v/step-1e-9) * step
}

// logRange are the ends of a logarithmic scale for values from lo to hi: 1, 2 or
// 5 times a power of ten, and never the same.
func logRange(lo, hi float64) (float64, float64) {
	if lo <= 0 || hi < lo || finite(hi) != hi {
		return 1, 1000
	}
	up := roundStep(hi)
	down := 1 / roundStep(1/lo)
	if up/down < 10 {
		down, up = down/2, up*2
	}
	return down, up
}

// plot is a picture with two axes.
type plot struct {
	b    strings.Builder
	x, y scale
}

// newPlot begins a picture; axes are set by the caller, before anything is
// drawn.
func newPlot(label string, x, y scale) *plot {
	p := &plot{x: x, y: y}
	p.x.from, p.x.to = plotLeft, plotWide-plotRight
	p.y.from, p.y.to = plotTall-plotLow, plotTop
	open(&p.b, label, plotTall)
	return p
}

// open begins a picture of the usual width.
func open(b *strings.Builder, label string, tall float64) {
	fmt.Fprintf(b, `<svg role="img" aria-label="%s" viewBox="0 0 %s %s">`, html.EscapeString(label), px(plotWide), px(tall))
}

// axes draws lines and ticks. A tick is a value in words.
func (p *plot) axes(xName, yName string, xTick, yTick func(float64) string) {
	fmt.Fprintf(&p.b, `<g class="axis"><text class="name" x="4" y="13">%s</text>`, html.EscapeString(yName))
	for _, v := range p.y.ticks(5) {
		y := p.y.at(v)
		fmt.Fprintf(&p.b, `<path d="M%s %sH%s"/><text class="e" x="%s" y="%s">%s</text>`,
			px(p.x.from), px(y), px(p.x.to), px(p.x.from-6), px(y+4), html.EscapeString(yTick(v)))
	}
	below, free := p.y.from, math.Inf(-1)
	many := map[bool]int{true: 4, false: 6}[p.x.log] // such labels are longer
	for _, v := range p.x.ticks(many) {
		x, text := p.x.at(v), xTick(v)
		fmt.Fprintf(&p.b, `<path d="M%s %sV%s"/>`, px(x), px(below), px(below+4))
		half := 3.4 * float64(len(text))
		if x-half < free {
			continue // no room for its text
		}
		free = x + half + 4
		fmt.Fprintf(&p.b, `<text class="m" x="%s" y="%s">%s</text>`, px(min(x, plotWide-half)), px(below+16), html.EscapeString(text))
	}
	fmt.Fprintf(&p.b, `<path class="base" d="M%s %sH%s"/><text class="name e" x="%s" y="%s">%s</text></g>`,
		px(p.x.from), px(below), px(p.x.to), px(p.x.to), px(below+30), html.EscapeString(xName))
}

// point is a place in values; a gap breaks the line before it.
type point struct {
	x, y float64
	gap  bool
}

// line draws points in a class of line. A point between gaps is a dot.
func (p *plot) line(class, title string, points []point) {
	if len(points) == 0 {
		return
	}
	d, alone := strings.Builder{}, []point{}
	for i, q := range points {
		begins := i == 0 || q.gap
		d.WriteString(map[bool]string{true: "M", false: "L"}[begins])
		d.WriteString(px(p.x.at(q.x)) + " " + px(p.y.at(q.y)))
		if begins && (i+1 == len(points) || points[i+1].gap) {
			alone = append(alone, q)
		}
	}
	fmt.Fprintf(&p.b, `<path class="line %s" d="%s"><title>%s</title></path>`, class, d.String(), html.EscapeString(title))
	for _, q := range alone {
		p.mark("dot "+class, dot, q, title)
	}
}

// stairs draws a line that goes from value to value only upwards, as a
// distribution does.
func (p *plot) stairs(class, title string, points []point) {
	if len(points) == 0 {
		return
	}
	d := strings.Builder{}
	d.WriteString("M" + px(p.x.at(points[0].x)) + " " + px(p.y.at(0)))
	for _, q := range points {
		d.WriteString("H" + px(p.x.at(q.x)) + "V" + px(p.y.at(q.y)))
	}
	fmt.Fprintf(&p.b, `<path class="line %s" d="%s"><title>%s</title></path>`, class, d.String(), html.EscapeString(title))
}

// hover tells of a span of x when the pointer is on it.
func (p *plot) hover(from, to float64, title string) {
	x, end := p.x.at(from), p.x.at(to)
	fmt.Fprintf(&p.b, `<rect class="hit" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`,
		px(x), px(p.y.to), px(end-x), px(p.y.from-p.y.to), html.EscapeString(title))
}

// shade marks a span of x.
func (p *plot) shade(class string, from, to float64, title string) {
	x, end := p.x.at(from), p.x.at(to)
	if end-x < 0.5 {
		return
	}
	fmt.Fprintf(&p.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`,
		class, px(x), px(p.y.to), px(end-x), px(p.y.from-p.y.to), html.EscapeString(title))
}

// mark draws a small sign at a place.
func (p *plot) mark(class string, shape markShape, at point, title string) {
	fmt.Fprintf(&p.b, `<path class="%s" transform="translate(%s %s)" d="%s"><title>%s</title></path>`,
		class, px(p.x.at(at.x)), px(p.y.at(at.y)), shape, html.EscapeString(title))
}

// markShape is the path of a sign around 0 0.
type markShape string

const (
	cross markShape = "M-4-4L4 4M-4 4L4-4"
	dot   markShape = "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0"
)

// say writes in the middle of the picture.
func (p *plot) say(text string) {
	fmt.Fprintf(&p.b, `<text class="m none" x="%s" y="%s">%s</text>`,
		px((p.x.from+p.x.to)/2), px((p.y.from+p.y.to)/2), html.EscapeString(text))
}

// end is the whole picture.
func (p *plot) end() template.HTML {
	p.b.WriteString("</svg>")
	return template.HTML(p.b.String()) //nolint:gosec // every name was escaped
}

// px prints a coordinate.
func px(v float64) string {
	s := strconv.FormatFloat(finite(v), 'f', 1, 64)
	return strings.TrimSuffix(s, ".0")
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return strings.TrimSpace(string(r[:n-1])) + "…"
	}
	return s
}
