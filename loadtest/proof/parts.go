package proof

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/foregate/foregate/loadtest/cost"
	"github.com/foregate/foregate/loadtest/scale"
)

// Parts are the reports of commands that take longer than make proof may, as they were committed (PAGE=yes writes them). What is nil has not been
// measured.
type Parts struct {
	Overhead *cost.Report  // make cost
	Paths    *cost.Report  // make flame
	Scale    *scale.Report // make scale
}

// readParts reads those that are committed.
func readParts() (p Parts, err error) {
	for name, to := range map[string]any{"overhead.json": &p.Overhead, "flame.json": &p.Paths, "scale.json": &p.Scale} {
		if e := readPart(name, to); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return p, err
}

// write puts the parts onto the page.
func (p *Parts) write(b *strings.Builder) {
	p.overhead(b)
	p.scale(b)
}

// overheadRows are the rows of the benchmark that the page shows.
var overheadRows = []string{
	"miss, 200 B, per request", "miss, 1 KiB, per request", "miss, 16 KiB, per request", "miss, 128 KiB, per request",
	"no-store, 200 B, per request", "no-store, 1 KiB, per request", "hit, per request", "hit from Redis, per request",
	"relayed stream, per token", "judged stream, per token", "nginx, 200 B, per request", "nginx, 1 KiB, per request", "nginx, relayed stream, per token",
}

func (p *Parts) overhead(b *strings.Builder) {
	b.WriteString("\n## Overhead\n\n`make bench` (`make cost`, `make flame`). CPU time of the gateway process, kernel included, with all defaults on, beside Go's `httputil.ReverseProxy` with a tuned transport in the same run, each on one core. " +
		"Medians over rounds in turns, and the range of the rounds' ratios. [More rows](measurements.md#cost-of-the-gateway).\n\n")
	if p.Overhead == nil {
		b.WriteString("Not measured.\n")
		return
	}
	row(b, "", "ratio", "range", "goal", "µs", "yardstick µs")
	line(b, 6)
	replicas := []cost.Row{}
	for _, r := range p.Overhead.Rows {
		if slices.Contains(overheadRows, r.Title) {
			costRow(b, &r, r.Title)
		}
		if strings.Contains(r.Title, replicasMark) {
			replicas = append(replicas, r)
		}
	}
	for _, d := range p.Overhead.Delays {
		if d.Title == "no-store, 200 B" || d.Title == "miss, 200 B" {
			fmt.Fprintf(b, "\nAdded latency of %s at the median: %.0f µs over the yardstick.", d.Title, d.OverYardstick)
		}
	}
	b.WriteString("\n\nThe same load on more replicas, on one core for all of them, beside one replica:\n\n")
	row(b, "", "ratio", "range", "goal", "µs", "one replica µs")
	line(b, 6)
	for i := range replicas {
		costRow(b, &replicas[i], strings.Replace(replicas[i].Title, replicasMark, "", 1))
	}
	p.paths(b)
}

// replicasMark is in the titles of rows that compare replicas.
const replicasMark = " replicas beside one"

func costRow(b *strings.Builder, r *cost.Row, title string) {
	var list []Pair
	for i := range r.Own {
		list = append(list, Pair{Baseline: r.Beside[i], Foregate: r.Own[i]})
	}
	m := medians(list)
	goal := ""
	if r.Goal > 0 {
		goal = "≤ " + number(r.Goal)
	}
	row(b, title, number(m.ratio), number(m.low)+" … "+number(m.high), goal, number(m.own), number(m.beside))
}

// paths tells what the CPU time of the main paths goes to.
func (p *Parts) paths(b *strings.Builder) {
	if p.Paths == nil || len(p.Paths.Paths) == 0 {
		return
	}
	b.WriteString("\nWhat the CPU time goes to, by the innermost function that belongs to something (`make flame` draws the graphs):\n\n")
	head := append([]string{"path"}, kindsOf(p.Paths.Paths)...)
	row(b, head...)
	line(b, len(head))
	for _, path := range p.Paths.Paths {
		cells := []string{path.Title}
		for _, kind := range head[1:] {
			for _, s := range path.Shares {
				if s.Kind == kind {
					cells = append(cells, fmt.Sprintf("%.0f %%", 100*s.Of))
				}
			}
		}
		row(b, cells...)
	}
}

// kindsOf are the kinds of work of all paths, the largest of the first path first.
func kindsOf(paths []cost.Path) (out []string) {
	for _, s := range paths[0].Shares {
		out = append(out, s.Kind)
	}
	return out
}

func (p *Parts) scale(b *strings.Builder) {
	b.WriteString("\n## Scale\n\n`make scale` measures small fleets of real replicas with a real Redis, computes what large ones ask, and compares the arithmetic with the largest fleet that two cores carry. " +
		"[Costs of one of each, and how to read this](measurements.md#scale).\n\n")
	if p.Scale == nil {
		b.WriteString("Not measured.\n")
		return
	}
	r := p.Scale
	fmt.Fprintf(b, "Compared with %s: commands %s of what was predicted, bytes %s, CPU time of Redis %s.\n\n", r.Check.Fleet,
		times.Text(r.Check.Measured.Commands/r.Check.Predicted.Commands), times.Text((r.Check.Measured.In+r.Check.Measured.Out)/(r.Check.Predicted.In+r.Check.Predicted.Out)), times.Text(r.Check.Share()))
	row(b, "fleet, with limits and cache", "Redis commands/s", "MB/s", "scrapes/s", "carried by", "at worst")
	line(b, 6)
	for _, c := range r.Forecasts {
		if c.Fleet.Limited && c.Fleet.Cached {
			row(b, c.Fleet.String(), number(c.Total.Commands), number((c.Total.In+c.Total.Out)/1e6), number(c.Scrapes), c.ByCheck, c.ByFits)
		}
	}
	b.WriteString("\n")
	row(b, "carried by", "up to, in these proportions")
	line(b, 2)
	for _, e := range r.Ends {
		row(b, e.Topology, e.Fleet.String())
	}
	b.WriteString("\n")
	row(b, "change, until all replicas know", "median", "worst")
	line(b, 3)
	for _, c := range r.Failures {
		row(b, c.Change, seconds.Text(c.Median), seconds.Text(c.Worst))
	}
}

// median figures of rounds.
type medianFigures struct{ own, beside, ratio, low, high float64 }

func medians(list []Pair) medianFigures {
	var own, beside, quotients []float64
	for _, p := range list {
		own, beside, quotients = append(own, p.Foregate), append(beside, p.Baseline), append(quotients, p.Foregate/p.Baseline)
	}
	return medianFigures{middle(own), middle(beside), middle(quotients), slices.Min(quotients), slices.Max(quotients)}
}

// middle is the median of a list that is not empty.
func middle(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
