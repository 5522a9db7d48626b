package proof

import (
	"fmt"
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
