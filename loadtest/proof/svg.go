package proof

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Charts are SVG, drawn here: the page needs no script. Colours are custom properties of page.css.

const (
	chartWidth = 760.0 // of the view box; the page scales it
	rowHeight  = 26.0
	labelWidth = 210.0
	tailWidth  = 120.0
)

// canvas collects the elements of a chart.
type canvas struct {
	strings.Builder
	height float64
}

func (c *canvas) text(x, y float64, class, anchor, text string) {
	_, _ = fmt.Fprintf(c, `<text x="%s" y="%s" class="%s" text-anchor="%s">%s</text>`, at(x), at(y), class, anchor, html.EscapeString(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	_, _ = fmt.Fprintf(c, `<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`, at(x1), at(y1), at(x2), at(y2), class)
}

func (c *canvas) dot(x, y float64, class, title string) {
	_, _ = fmt.Fprintf(c, `<circle cx="%s" cy="%s" r="4.5" class="%s"><title>%s</title></circle>`, at(x), at(y), class, html.EscapeString(title))
}

// svg is the whole chart, with what it is for those who do not see it.
func (c *canvas) svg(label string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %s %s" role="img" aria-label="%s">%s</svg>`, //nolint:gosec // made of numbers and of escaped text
		at(chartWidth), at(c.height), html.EscapeString(label), c.String()))
}

// at writes a coordinate.
func at(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// axis maps values to places.
type axis struct {
	name      string
	unit      Unit
	low, high float64 // values
	from, to  float64 // their places
	log       bool
	ticks     []float64
}

func (a *axis) place(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log(max(v, a.low)), math.Log(a.low), math.Log(a.high)
	}
	return a.from + (a.to-a.from)*min(max((v-low)/max(high-low, 1e-12), 0), 1)
}

// linear is an axis from 0 to beyond the largest value, with round ticks.
func linear(name string, unit Unit, largest float64) axis {
	step := math.Pow(10, math.Floor(math.Log10(max(largest, 1e-9))))
	for _, part := range []float64{0.1, 0.2, 0.5, 1} {
		if largest/(step*part) <= 6 {
			step *= part
			break
		}
	}
	a := axis{name: name, unit: unit, high: step * math.Ceil(largest/step*1.0001)}
	for v := 0.0; v <= a.high*1.0001; v += step {
		a.ticks = append(a.ticks, v)
	}
	return a
}

// ratios is a logarithmic axis around 1.
func ratios(low, high float64) axis {
	a := axis{name: "ratio, logarithmic", unit: times, log: true, low: low, high: high}
	for _, v := range []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50} {
		if v >= low && v <= high {
			a.ticks = append(a.ticks, v)
		}
	}
	return a
}

// dotRow is a line of a dot plot.
type dotRow struct {
	name  string
	value Spread
	goal  float64 // 0 is none
	text  string  // behind it
	class string
	title string
}

// dotPlot draws a value with its range in each row, and its goal.
func dotPlot(label string, list []dotRow, a axis) template.HTML {
	c := &canvas{height: rowHeight*float64(len(list)) + 44}
	a.from, a.to = labelWidth+10, chartWidth-tailWidth
	bottom := rowHeight*float64(len(list)) + 10
	for _, v := range a.ticks {
		class := "rule"
		if a.log && v == 1 {
			class = "one"
		}
		c.line(a.place(v), 4, a.place(v), bottom, class)
		c.text(a.place(v), bottom+14, "tick", "middle", a.unit.Text(v))
	}
	c.text((a.from+a.to)/2, bottom+30, "tick", "middle", a.name)
	for i, r := range list {
		y := rowHeight*float64(i) + 18
		c.text(labelWidth, y+4, "name", "end", r.name)
		if r.goal > 0 {
			x := a.place(r.goal)
			_, _ = fmt.Fprintf(c, `<path d="M%s %sl5 6l-5 6l-5 -6z" class="goal"><title>%s</title></path>`, at(x), at(y-6), html.EscapeString("goal: "+a.unit.Text(r.goal)))
		}
		if r.value.N > 0 {
			c.line(a.place(r.value.Min), y, a.place(r.value.Max), y, "range "+r.class)
			c.dot(a.place(r.value.Mean), y, r.class, r.title)
		}
		c.text(chartWidth-tailWidth+12, y+4, "value", "start", r.text)
	}
	return c.svg(label)
}

// point is one of a curve.
type point struct {
	x, y  Spread
	title string
}

// curve is a line through points.
type curve struct {
	name, class string
	points      []point
	thin        bool // without dots
}

// plot draws curves over two axes.
func plot(label string, x, y axis, curves []curve) template.HTML {
	const height, left, right, top = 360.0, 66.0, 12.0, 10.0
	c := &canvas{height: height + 24*math.Ceil(float64(len(curves))/3) + 8}
	x.from, x.to, y.from, y.to = left, chartWidth-right, height-46, top
	for _, v := range x.ticks {
		c.line(x.place(v), y.to, x.place(v), y.from, "rule")
		c.text(x.place(v), y.from+16, "tick", "middle", x.unit.Text(v))
	}
	for _, v := range y.ticks {
		c.line(x.from, y.place(v), x.to, y.place(v), "rule")
		c.text(x.from-6, y.place(v)+4, "tick", "end", y.unit.Text(v))
	}
	c.text((x.from+x.to)/2, y.from+34, "tick", "middle", x.name)
	_, _ = fmt.Fprintf(c, `<text transform="translate(14 %s) rotate(-90)" class="tick" text-anchor="middle">%s</text>`, at((y.from+y.to)/2), html.EscapeString(y.name))
	for i, k := range curves {
		var path strings.Builder
		for j, p := range k.points {
			sign := "L"
			if j == 0 {
				sign = "M"
			}
			path.WriteString(sign + at(x.place(p.x.Mean)) + " " + at(y.place(p.y.Mean)))
		}
		_, _ = fmt.Fprintf(c, `<path d="%s" class="curve %s"/>`, path.String(), k.class)
		for _, p := range k.points {
			if k.thin {
				continue
			}
			c.line(x.place(p.x.Min), y.place(p.y.Mean), x.place(p.x.Max), y.place(p.y.Mean), "range "+k.class)
			c.line(x.place(p.x.Mean), y.place(p.y.Min), x.place(p.x.Mean), y.place(p.y.Max), "range "+k.class)
			c.dot(x.place(p.x.Mean), y.place(p.y.Mean), k.class, p.title)
		}
		column, line := float64(i%3), float64(i/3)
		c.dot(left+8+240*column, height+8+22*line, k.class, k.name)
		c.text(left+20+240*column, height+12+22*line, "name", "start", k.name)
	}
	return c.svg(label)
}
