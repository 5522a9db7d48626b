package soak

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is what a soak found. As JSON it has all samples, so that charts can be drawn from it.
type Report struct {
	Seed        uint64  `json:"seed"`
	Seconds     float64 `json:"seconds"`       // of the load
	Every       float64 `json:"every_seconds"` // a cycle
	Capacity    float64 `json:"capacity"`      // requests a second; 0: it was not measured
	Share       float64 `json:"share"`         // of the capacity that was sent
	Rate        float64 `json:"rate"`          // requests a second
	Calibration []Step  `json:"calibration,omitempty"`

	Total     Counts    `json:"total"`
	Elsewhere int       `json:"elsewhere"` // connections that were refused and tried at another gateway
	Periods   []Period  `json:"periods"`   // in order of time: each fault, and what is between two faults
	Series    []*Series `json:"series"`
	Growth    []Growth  `json:"growth"`
	Rest      []Rest    `json:"rest"`
	Checks    []Check   `json:"checks"`
	Samples   []string  `json:"samples,omitempty"` // of what failed or is broken, at most 40
}

// Period is a part of the run.
type Period struct {
	Fault     string  `json:"fault"`             // "" is none
	At        float64 `json:"at"`                // seconds since the load began
	Seconds   float64 `json:"seconds"`           // until all was as before
	Recovered float64 `json:"recovered_seconds"` // from the fault's end until all was as before
	Late      bool    `json:"late"`              // it was not, in time
	Counts    Counts  `json:"counts"`
	First     First   `json:"first_token_ms"` // of streams that were answered
}

// First are times to the first token in ms.
type First struct {
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Worst float64 `json:"worst"`
}

// first sums times up.
func first(all []float64) First {
	return First{percentile(all, 0.5), percentile(all, 0.99), percentile(all, 1)}
}

// Growth is what became of a resource in a life of a process under load.
type Growth struct {
	Process  string `json:"process"`
	Life     int    `json:"life"`
	Resource string `json:"resource"`
	Unit     string `json:"unit,omitempty"`
	Flat
}

// Rest is what a process holds without load, before the soak and after it.
type Rest struct {
	Process  string  `json:"process"`
	Resource string  `json:"resource"`
	Before   float64 `json:"before"`
	After    float64 `json:"after"`
	Bound    float64 `json:"bound"` // of After
	Held     bool    `json:"held"`
}

// Check is one that holds or is broken.
type Check struct {
	Name   string `json:"name"`
	Figure string `json:"figure"`
	Bound  string `json:"bound"`
	Held   bool   `json:"held"`
}

// Held reports whether all checks hold.
func (r *Report) Held() bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.Held })
}

// JSON is the report for programs.
func (r *Report) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}

// Text is the report as Markdown tables, which terminals show as well.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v of load, a fault every %v, seed %d; ", seconds(r.Seconds), seconds(r.Every), r.Seed)
	if r.Capacity > 0 {
		fmt.Fprintf(&b, "capacity %.0f requests/s, of which %.0f %% were sent: ", r.Capacity, 100*r.Share)
	}
	fmt.Fprintf(&b, "%.1f requests/s.\n\n", r.Rate)
	r.faultTable(&b)
	b.WriteString("\n")
	r.growthTable(&b)
	b.WriteString("\n")
	table(&b, []string{"check", "figure", "bound", "verdict"}, func(row func(cells ...string)) {
		for _, c := range r.Checks {
			row(c.Name, c.Figure, c.Bound, held(c.Held))
		}
	})
	return b.String()
}

// faultTable has a line for each fault, over all times that it was made, and one for the time without a fault.
func (r *Report) faultTable(b *strings.Builder) {
	names := []string{""}
	for _, f := range Faults() {
		names = append(names, f.Name)
	}
	head := []string{"fault", "times", "requests", "answered", "shed", "limited", "left", "failed", "reasons", "first token ms: p99 / worst", "as before after s"}
	table(b, head, func(row func(cells ...string)) {
		for _, name := range names {
			var sum Counts
			var p99, worst, recovered float64
			times := 0
			for _, p := range r.Periods {
				if p.Fault != name {
					continue
				}
				times++
				sum.add(p.Counts)
				p99, worst, recovered = max(p99, p.First.P99), max(worst, p.First.Worst), max(recovered, p.Recovered)
			}
			if times == 0 {
				continue
			}
			after := fmt.Sprintf("%.1f", recovered)
			if name == "" {
				name, after = "(none)", "–"
			}
			row(name, fmt.Sprint(times), fmt.Sprint(sum.Sent), fmt.Sprint(sum.Answered), fmt.Sprint(sum.Shed), fmt.Sprint(sum.Limited), fmt.Sprint(sum.Left),
				fmt.Sprint(sum.Failed+sum.Broken), reasons(sum.Reasons), fmt.Sprintf("%.0f / %.0f", p99, worst), after)
		}
	})
}

// growthTable has a line for each resource of each life of a process that was judged.
func (r *Report) growthTable(b *strings.Builder) {
	head := []string{"process", "resource", "samples", "first third", "last third", "growth", "bound", "slope an hour (95 %)", "verdict"}
	table(b, head, func(row func(cells ...string)) {
		for _, g := range r.Growth {
			interval := ""
			if g.Interval != nil {
				interval = fmt.Sprintf(" (%+.1f … %+.1f)", g.Interval[0], g.Interval[1])
			}
			row(life(g.Process, g.Life), strings.TrimSpace(g.Resource+" "+g.Unit), fmt.Sprint(g.Samples), number(g.First), number(g.Last),
				fmt.Sprintf("%+.1f", g.Growth), number(g.Bound), fmt.Sprintf("%+.1f", g.Slope)+interval, held(g.Held))
		}
	})
}

// table writes a Markdown table.
func table(b *strings.Builder, head []string, rows func(row func(cells ...string))) {
	row := func(cells ...string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	row(head...)
	b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	rows(row)
}

// life names a life of a process.
func life(process string, n int) string {
	if n == 1 {
		return process
	}
	return fmt.Sprintf("%s, life %d", process, n)
}

// number is a figure without digits that say nothing.
func number(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

// seconds are a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// reasons are counts by reason.
func reasons(all map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, fmt.Sprintf("%d × %s", all[name], name))
	}
	return strings.Join(out, ", ")
}

// held is a verdict in words.
func held(ok bool) string {
	if ok {
		return "held"
	}
	return "**BROKEN**"
}
