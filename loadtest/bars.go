package loadtest

import (
	"fmt"
	"html"
	"html/template"
	"strings"
)

// bar is one line of a chart of bars: parts beside each other.
type bar struct {
	name, text string // text stands behind the bar
	title      string
	parts      []part
}

// part is a piece of a bar.
type part struct {
	class string
	value float64
}

const (
	barStep  = 36.0 // from bar to bar
	barTall  = 13.0
	barLeft  = 4.0
	barRight = 92.0 // for the text behind the longest
)

// bars draws a chart of bars that end at most at top.
func bars(label string, top float64, u unit, rows []bar) template.HTML {
	tall := barStep*float64(len(rows)) + 26
	s := scale{hi: max(top, 1e-12), from: barLeft, to: plotWide - barRight}
	b := &strings.Builder{}
	open(b, label, tall)
	b.WriteString(`<g class="axis">`)
	for i, v := range s.ticks(4) {
		x, class := px(s.at(v)), "m"
		if i == 0 {
			class = ""
		}
		fmt.Fprintf(b, `<path d="M%s 0V%s"/><text class="%s" x="%s" y="%s">%s</text>`, x, px(tall-18), class, x, px(tall-4), html.EscapeString(u.with(v)))
	}
	b.WriteString(`</g>`)
	for i, r := range rows {
		y := barStep * float64(i)
		fmt.Fprintf(b, `<g><title>%s</title><text x="%s" y="%s">%s</text>`,
			html.EscapeString(r.title), px(barLeft), px(y+13), html.EscapeString(cut(r.name, 62)))
		end := s.from
		for _, p := range r.parts {
			width := s.at(p.value) - s.from
			fmt.Fprintf(b, `<rect class="bar %s" x="%s" y="%s" width="%s" height="%s"/>`, p.class, px(end), px(y+18), px(width), px(barTall))
			end += width
		}
		fmt.Fprintf(b, `<text class="value" x="%s" y="%s">%s</text></g>`, px(end+6), px(y+29), html.EscapeString(r.text))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // every name was escaped
}
