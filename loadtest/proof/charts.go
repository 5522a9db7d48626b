package proof

import (
	"fmt"
	"strings"
)

// charts are the page's pictures.
func (d *Document) charts() []chart {
	out := []chart{d.ratioChart()}
	if cells := d.Results.Tables["quality-cost"]; len(cells) > 0 {
		out = append(out, qualityChart(cells))
	}
	if cells := d.Results.Tables["day"]; len(cells) > 0 {
		t := dayTable()
		out = append(out, t.chart(cells, "answers/s", "A day: answers per second"), t.chart(cells, "lost", "A day: requests without an answer"),
			t.chart(cells, "TTFT p99", "A day: P99 of the time to first token"))
	}
	if r := d.Parts.Soak; r != nil {
		out = append(out, soakCharts(r)...)
	}
	return out
}

// ratioChart shows how many times the baseline's each figure is.
func (d *Document) ratioChart() chart {
	var list []dotRow
	low, high := 0.5, 2.0
	for i := range d.Claims {
		c := &d.Claims[i]
		pairs := d.Results.of(c)
		f := figures(pairs)
		if f.Ratio.N == 0 || f.Ratio.Min <= 0 {
			continue
		}
		r := dotRow{name: c.ID, value: f.Ratio, text: times.Spread(f.Ratio), title: c.Text + ": " + times.Spread(f.Ratio)}
		if c.verdict(pairs) == NotReached {
			r.class = "missed"
		}
		if c.Goal.Of == Ratio {
			r.goal = c.Goal.Bound
			low, high = min(low, r.goal), max(high, r.goal)
		}
		low, high = min(low, f.Ratio.Min), max(high, f.Ratio.Max)
		list = append(list, r)
	}
	return chart{
		Title: "Beside the baseline",
		About: "How many times the baseline's figure Foregate's is: the mean, and the range over seeds or rounds. A diamond is the goal; another colour is a claim that does not hold. Claims without a baseline, or whose figure is 0, are in the table only.",
		SVG:   dotPlot("Ratios of claims", list, ratios(max(low*0.8, 0.005), high*1.25)),
	}
}

// ways are the curves of quality beside cost: how the names of their cases begin, and what they are called.
var ways = []struct{ prefix, name, class string }{
	{"threshold ", "fixed threshold", "k2"},
	{"risk ", "Foregate, mode risk", "k1"},
	{"router ", "random router", "k4"},
	{"oracle ", "oracle", "k3"},
}

func qualityChart(cells map[string]tableCells) chart {
	var curves []curve
	wrongest, dearest := 0.0, 1.0
	for _, w := range ways {
		k := curve{name: w.name, class: w.class}
		for _, cs := range qualityTable().Cases {
			if !strings.HasPrefix(cs, w.prefix) {
				continue
			}
			p := point{x: spread(cells[cs][costColumn]), y: spread(cells[cs][wrongColumn])}
			p.title = fmt.Sprintf("%s: cost %s, wrong %s", cs, times.Text(p.x.Mean), share.Text(p.y.Mean))
			k.points = append(k.points, p)
			wrongest, dearest = max(wrongest, p.y.Max), max(dearest, p.x.Max)
		}
		curves = append(curves, k)
	}
	return chart{
		Title: "Quality beside cost",
		About: "Further left is cheaper, further down is better: the mean of each setting and the range over seeds. A router by chance is a straight line from the target alone (cost × 1, none wrong) to the draft alone.",
		SVG:   plot("Wrong answers beside cost", linear("cost beside the target alone", times, dearest), linear("wrong of all answers", share, wrongest), curves),
	}
}

// chart shows a column of the table.
func (t *table) chart(cells map[string]tableCells, column, title string) chart {
	var list []dotRow
	largest, unit := 0.0, plain
	for _, c := range t.Columns {
		if c.Name == column {
			unit = c.Unit
		}
	}
	for _, cs := range t.Cases {
		s := spread(cells[cs][column])
		largest = max(largest, s.Max)
		list = append(list, dotRow{name: cs, value: s, text: unit.Spread(s), title: cs + ": " + unit.Spread(s)})
	}
	return chart{Title: title, About: "The mean of each case and the range over seeds.", SVG: dotPlot(title, list, linear(column, unit, largest))}
}
