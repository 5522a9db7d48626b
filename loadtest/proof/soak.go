package proof

import (
	"fmt"
	"slices"
	"strings"

	"github.com/foregate/foregate/loadtest/soak"
)

func soakSection(r *soak.Report) section {
	out := section{
		Title: "Soak",
		About: "`make soak`: three gateways, four engines and Redis, all processes, at 70 % of the capacity that is measured first, with a fault a minute. Requests of all three APIs; answers are compared with what the engine says. " +
			"[How it is judged](guides/lab.md#the-soak).",
	}
	if r == nil {
		return out
	}
	checks := grid{
		Text: fmt.Sprintf("%.0f minutes at %.0f requests/s; the capacity is %.0f.", r.Seconds/60, r.Rate, r.Capacity),
		Head: []string{"check", "figure", "bound", "verdict"},
	}
	for _, c := range r.Checks {
		checks.Rows = append(checks.Rows, []string{c.Name, c.Figure, c.Bound, heldText(c.Held)})
	}
	growth := grid{
		Text: "What processes hold that lived for the whole run: medians of the first and of the last third after a warm-up, and the slope with its interval of 95 %.",
		Head: []string{"process", "resource", "first third", "last third", "bound of the growth", "slope an hour", "verdict"},
	}
	whole := map[string]bool{}
	for _, s := range r.Series {
		whole[s.Process] = whole[s.Process] || s.Whole
	}
	for _, g := range r.Growth {
		if !whole[g.Process] {
			continue
		}
		slope := number(g.Slope)
		if g.Interval != nil {
			slope += " (" + number(g.Interval[0]) + " … " + number(g.Interval[1]) + ")"
		}
		growth.Rows = append(growth.Rows, []string{g.Process, strings.TrimSpace(g.Resource + " " + g.Unit), number(g.First), number(g.Last), number(g.Bound), slope, heldText(g.Held)})
	}
	out.Grids = append(out.Grids, checks, growth)
	return out
}

func heldText(held bool) string {
	if held {
		return string(Held)
	}
	return "broken"
}

// soakCharts show what the gateways hold over time; a restart begins another curve.
func soakCharts(r *soak.Report) []chart {
	return []chart{
		soakChart(r, "rss", "resident memory, MiB", "Soak: memory of the gateways"),
		soakChart(r, "goroutines", "goroutines", "Soak: goroutines of the gateways"),
	}
}

func soakChart(r *soak.Report, resource, axisName, title string) chart {
	var curves []curve
	largest := 0.0
	for _, s := range r.Series {
		if !strings.HasPrefix(s.Process, "gateway") || len(s.Samples) < 2 {
			continue
		}
		k := curve{name: s.Process, class: soakClasses[len(curves)%len(soakClasses)], thin: true}
		if s.Life > 1 {
			k.name += fmt.Sprintf(", life %d", s.Life)
		}
		for _, sample := range s.Samples {
			v := sample.Values[resource]
			largest = max(largest, v)
			k.points = append(k.points, point{x: spread([]float64{sample.At / 60}), y: spread([]float64{v})})
		}
		curves = append(curves, k)
	}
	slices.SortStableFunc(curves, func(a, b curve) int { return strings.Compare(a.name, b.name) })
	return chart{
		Title: title, About: "One sample a minute, at rest between two faults, under load.",
		SVG: plot(title, linear("minutes", plain, r.Seconds/60), linear(axisName, plain, largest), curves),
	}
}

// soakClasses tell curves apart.
var soakClasses = []string{"k1", "k2", "k3", "k4"}
