package pair

import (
	"fmt"
	"html"
	"strings"
)

// HTML is the reports as a page with charts.
func (rs Reports) HTML() string {
	var b strings.Builder
	b.WriteString(`<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Real pairs</title><style>` + style + `</style><h1>Foregate in front of real pairs</h1>`)
	fmt.Fprintf(&b, "<p>%s</p>", strings.ReplaceAll(strings.TrimPrefix(html.EscapeString(rs.About()), "- "), "\n- ", "<br>"))
	b.WriteString(`<h2>Disagreement by the share that is served</h2><p>The drafts with the highest plain scores first. Dashed: ε of .05, .1 and .2.</p><div class="charts">`)
	rs.evidences(func(r *Report, e *Evidence) {
		if len(e.Curve) > 0 {
			b.WriteString(curveChart(r.name()+", "+e.Label, e.Curve))
		}
	})
	b.WriteString(`</div><h2>How well scores tell</h2><p>AUROC with intervals of 95 %; 0.5 is chance.</p><div class="charts">`)
	rs.evidences(func(r *Report, e *Evidence) {
		var marks []mark
		for _, a := range e.Areas {
			marks = append(marks, mark{a.Score, a.AUROC, a.AUROC - 1.96*a.Error, a.AUROC + 1.96*a.Error})
		}
		if len(marks) > 0 {
			b.WriteString(markChart(r.name()+", "+e.Label, marks, .5))
		}
	})
	b.WriteString(`</div><h2>Right answers</h2><p>Shares with intervals of 95 %.</p><div class="charts">`)
	for _, r := range rs {
		var marks []mark
		for _, x := range r.Truth {
			name := x.Way
			if x.Part == partRisk {
				name += ", " + x.Part
			}
			marks = append(marks, mark{name, x.Right.share(), x.Right.Low, x.Right.High})
		}
		if len(marks) > 0 {
			b.WriteString(markChart(r.name(), marks, 0))
		}
	}
	b.WriteString("</div>")
	for _, t := range rs.allTables() {
		fmt.Fprintf(&b, "<h2>%s</h2><p>%s</p><div class=wide><table>", html.EscapeString(t.Title), html.EscapeString(strings.NewReplacer("`", "", "*", "").Replace(t.About)))
		for i, row := range t.Rows {
			cell := "td"
			if i == 0 {
				cell = "th"
			}
			b.WriteString("<tr>")
			for _, text := range row {
				fmt.Fprintf(&b, "<%s>%s</%s>", cell, html.EscapeString(text), cell)
			}
			b.WriteString("</tr>")
		}
		b.WriteString("</table></div>")
	}
	return b.String() + "</html>\n"
}

const style = `body{font:15px/1.45 system-ui,sans-serif;max-width:1200px;margin:2em auto;padding:0 1em;color:#1b2733}h1,h2{font-weight:600}
.charts{display:flex;flex-wrap:wrap;gap:16px}svg{border:1px solid #d7dee5;border-radius:6px;background:#fff}svg text{font:12px system-ui,sans-serif;fill:#33414e}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}td,th{border:1px solid #d7dee5;padding:4px 8px;text-align:left;vertical-align:top}th{background:#f2f5f8}`

// The size of a chart and of its margins, in pixels.
const (
	chartWidth, chartHeight         = 560, 300
	leftSide, topSide, belowAndSide = 52, 34, 40
)

// place is where a point of the unit square is in a chart whose y axis ends at top.
func place(x, y, top float64) (px, py float64) {
	return leftSide + x*(chartWidth-leftSide-16), chartHeight - belowAndSide - y/top*(chartHeight-topSide-belowAndSide)
}

// begin starts a chart with its title.
func begin(b *strings.Builder, title string, height int) {
	fmt.Fprintf(b, `<svg role="img" width="%d" height="%d" viewBox="0 0 %d %d"><title>%s</title><text x="12" y="20" style="font-weight:600">%s</text>`,
		chartWidth, height, chartWidth, height, html.EscapeString(title), html.EscapeString(title))
}

func line(b *strings.Builder, x1, y1, x2, y2 float64, style string) {
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" style="%s"/>`, x1, y1, x2, y2, style)
}

func label(b *strings.Builder, x, y float64, anchor, text string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, html.EscapeString(text))
}

// curveChart draws disagreement over the share of drafts.
func curveChart(title string, curve [][2]float64) string {
	var b strings.Builder
	begin(&b, title, chartHeight)
	top := .25
	for _, p := range curve {
		for p[1] > top {
			top += .25
		}
	}
	for i := range 6 {
		x, below := place(float64(i)/5, 0, top)
		label(&b, x, below+16, "middle", fmt.Sprintf("%.1f", float64(i)/5))
		left, y := place(0, top*float64(i)/5, top)
		right, _ := place(1, 0, top)
		line(&b, left, y, right, y, "stroke:#e3e8ee")
		label(&b, left-6, y+4, "end", fmt.Sprintf("%.2f", top*float64(i)/5))
	}
	for _, rate := range comparedRates {
		left, y := place(0, rate, top)
		right, _ := place(1, rate, top)
		line(&b, left, y, right, y, "stroke:#c0392b;stroke-dasharray:5 4")
	}
	b.WriteString(`<polyline style="fill:none;stroke:#1f6fb2;stroke-width:2" points="`)
	for _, p := range curve {
		x, y := place(p[0], p[1], top)
		fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
	}
	b.WriteString(`"/>`)
	label(&b, chartWidth/2, chartHeight-6, "middle", "share of drafts served")
	return b.String() + "</svg>"
}

// mark is an estimate with its interval, in 0 … 1.
type mark struct {
	name          string
	at, low, high float64
}

// markChart draws estimates below each other; chance is a dashed line.
func markChart(title string, marks []mark, chance float64) string {
	const step, names = 24, 250
	height := topSide + step*len(marks) + belowAndSide
	at := func(v float64) float64 { return names + max(min(v, 1), 0)*(chartWidth-names-60) }
	var b strings.Builder
	begin(&b, title, height)
	bottom := float64(height - belowAndSide)
	for i := range 5 {
		v := float64(i) / 4
		line(&b, at(v), topSide, at(v), bottom, "stroke:#e3e8ee")
		label(&b, at(v), bottom+16, "middle", fmt.Sprintf("%.2f", v))
	}
	if chance > 0 {
		line(&b, at(chance), topSide, at(chance), bottom, "stroke:#c0392b;stroke-dasharray:5 4")
	}
	for i, m := range marks {
		y := float64(topSide + step*i + step/2)
		label(&b, names-10, y+4, "end", m.name)
		line(&b, at(m.low), y, at(m.high), y, "stroke:#1f6fb2;stroke-width:2")
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4" style="fill:#1f6fb2"/>`, at(m.at), y)
		label(&b, at(1)+10, y+4, "start", fmt.Sprintf("%.2f", m.at))
	}
	return b.String() + "</svg>"
}
