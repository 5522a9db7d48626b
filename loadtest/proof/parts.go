package proof

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/foregate/foregate/loadtest/cost"
	"github.com/foregate/foregate/loadtest/fleets"
	"github.com/foregate/foregate/loadtest/pair"
	"github.com/foregate/foregate/loadtest/soak"
)

// Parts are the reports of commands that take longer than make proof may, as they were committed (PAGE=yes writes them). What is nil has not been
// measured.
type Parts struct {
	Overhead *cost.Report   // make cost
	Soak     *soak.Report   // make soak
	Pairs    pair.Reports   // make pair
	Fleets   []fleets.Found // loadtest fleets --out loadtest/proof/results/fleets.json
}

// readParts reads those that are committed.
func readParts() (p Parts, err error) {
	for name, to := range map[string]any{"overhead.json": &p.Overhead, "soak.json": &p.Soak, "pairs.json": &p.Pairs, "fleets.json": &p.Fleets} {
		if e := readPart(name, to); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return p, err
}

// sections are the parts as the page has them.
func (p *Parts) sections() []section {
	out := []section{overheadSection(p.Overhead), soakSection(p.Soak), pairSection(p.Pairs)}
	for i := range out {
		if len(out[i].Grids) == 0 {
			out[i].Grids = []grid{{Text: "Not measured."}}
		}
	}
	return out
}

// overheadRows are the rows of the benchmark that the page shows.
var overheadRows = []string{
	"miss, 200 B, per request", "miss, 1 KiB, per request", "miss, 16 KiB, per request", "miss, 128 KiB, per request",
	"no-store, 200 B, per request", "no-store, 1 KiB, per request", "hit, per request", "hit from Redis, per request",
	"relayed stream, per token", "judged stream, per token", "nginx, 200 B, per request", "nginx, 1 KiB, per request", "nginx, relayed stream, per token",
}

func overheadSection(r *cost.Report) section {
	out := section{
		Title: "Overhead",
		About: "`make bench` (`make cost`). CPU time of the gateway process, kernel included, with all defaults on, beside Go's `httputil.ReverseProxy` with a tuned transport in the same run, each on one core. " +
			"Medians over rounds in turns, and the range of the rounds' ratios. [More rows](measurements.md#cost-of-the-gateway).",
	}
	if r == nil {
		return out
	}
	own := grid{Head: []string{"", "ratio", "range", "goal", "µs", "yardstick µs"}}
	replicas := grid{Text: "The same load on more replicas, on one core for all of them, beside one replica:", Head: []string{"", "ratio", "range", "goal", "µs", "one replica µs"}}
	for _, title := range overheadRows {
		for i := range r.Rows {
			if r.Rows[i].Title == title {
				own.Rows = append(own.Rows, costRow(&r.Rows[i], title))
			}
		}
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if strings.Contains(row.Title, replicasMark) {
			replicas.Rows = append(replicas.Rows, costRow(row, strings.Replace(row.Title, replicasMark, "", 1)))
		}
	}
	delays := []string{}
	for _, d := range r.Delays {
		if d.Title == "no-store, 200 B" || d.Title == "miss, 200 B" {
			delays = append(delays, fmt.Sprintf("Added latency of %s at the median: %.0f µs over the yardstick.", d.Title, d.OverYardstick))
		}
	}
	out.Grids = append(out.Grids, own, grid{Text: strings.Join(delays, "\n")}, replicas)
	return out
}

// replicasMark is in the titles of rows that compare replicas.
const replicasMark = " replicas beside one"

func costRow(r *cost.Row, title string) []string {
	m := medians(costPairs(r))
	goal := ""
	if r.Goal > 0 {
		goal = "≤ " + number(r.Goal)
	}
	return []string{title, number(m.ratio), number(m.low) + " … " + number(m.high), goal, number(m.own), number(m.beside)}
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
