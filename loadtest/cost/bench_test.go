package cost

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// form is how long the benchmark takes and how sure it is.
type form struct {
	rounds  int
	slices  int           // of a continuous load, per round
	lasts   time.Duration // of a slice
	samples int           // of a latency, per round
	memory  time.Duration // how long the load lasts under which memory is measured
}

var (
	fullForm  = form{rounds: 7, slices: 4, lasts: 100 * time.Millisecond, samples: 50, memory: 4 * time.Second}
	shortForm = form{rounds: 3, slices: 2, lasts: 60 * time.Millisecond, samples: 25, memory: time.Second}
)

// BenchmarkCost measures what the gateway costs beside the yardstick in the same run: CPU time, allocations, added latency,
// memory. The processes take turns, because ratios within a round hold where absolute values do not. It prints tables. It fails
// if an answer is wrong, or if requests were not served as their row says.
//
//	FOREGATE_COST=short          a minute instead of four
//	FOREGATE_COST=check          fail if a ratio is worse than the committed one (testdata/ratios.txt)
//	FOREGATE_COST_ROWS=REGEXP    only these rows of the table of CPU time, and no latency or memory
//	FOREGATE_COST_ROUNDS=N       so many rounds
//	FOREGATE_COST_JSON=FILE      also write the figures there, see [Report]
//	FOREGATE_BINARY=FILE         measure this foregate instead of building one
//
// With -update it measures the ratios five times and writes testdata/ratios.txt.
func BenchmarkCost(b *testing.B) {
	f, mode, rows := fullForm, os.Getenv("FOREGATE_COST"), os.Getenv("FOREGATE_COST_ROWS")
	if mode == "short" || testing.Short() {
		f = shortForm
	}
	if n, err := strconv.Atoi(os.Getenv("FOREGATE_COST_ROUNDS")); err == nil && n > 0 {
		f.rounds = n
	}
	for b.Loop() {
		began := time.Now()
		c := &cost{form: f, parties: newParties(b, foregateBinary(b)), committed: readRatios(b)}
		c.choose(b, rows)
		if rows == "" && !*update {
			c.delays = newDelays(c.has(nginx))
		}
		c.measure(b)
		c.header(began)
		c.table()
		report := c.report()
		if len(c.delays) > 0 {
			c.delayTable()
			report.Delays, report.Memory = c.delayReport(), c.memoryTable(b)
		}
		if file := os.Getenv("FOREGATE_COST_JSON"); file != "" {
			if err := report.Write(file); err != nil {
				b.Fatal(err)
			}
		}
		switch {
		case *update:
			c.updateRatios(b)
		case mode == "check":
			c.checkRatios(b)
		}
	}
	b.ReportMetric(0, "ns/op") // it would be the length of the run
}

// cost is one run of the benchmark.
type cost struct {
	form
	*parties
	groups    []group
	delays    []*delay
	samples   map[string][]sample // by the workload's title, one per round
	committed map[string]committed
}

// choose takes the rows whose title the expression matches, and the workloads that they need.
func (c *cost) choose(b *testing.B, expression string) {
	b.Helper()
	chosen, err := regexp.Compile(expression)
	if err != nil {
		b.Fatal(err)
	}
	c.groups = nil
	for _, g := range groups(c.form) {
		at := map[string]string{}
		for _, w := range g.workloads {
			at[w.title] = w.at
		}
		needed := map[string]bool{}
		g.rows = slices.DeleteFunc(g.rows, func(r row) bool {
			out := !chosen.MatchString(r.title) || !c.has(at[r.own])
			needed[r.own], needed[r.beside] = needed[r.own] || !out, needed[r.beside] || !out
			return out
		})
		g.workloads = slices.DeleteFunc(g.workloads, func(w workload) bool { return !needed[w.title] })
		if len(g.rows) > 0 {
			c.groups = append(c.groups, g)
		}
	}
	if len(c.groups) == 0 {
		b.Fatalf("no row matches %q", expression)
	}
}

// measure measures every group and latency once in each round.
func (c *cost) measure(b *testing.B) {
	b.Helper()
	c.samples = map[string][]sample{}
	for r := range c.rounds {
		for _, g := range c.groups {
			c.round(b, g, r)
		}
		for _, d := range c.delays {
			if err := d.round(c); err != nil {
				b.Fatalf("latency of %s: %v", d.title, err)
			}
		}
	}
}

// maxTries is how often a round is measured until all its loads were served as their rows say.
const maxTries = 4

// round measures a group once.
func (c *cost) round(b *testing.B, g group, round int) {
	b.Helper()
	for try := 1; ; try++ {
		samples, err := c.try(b, g, round)
		if err == nil {
			for i, w := range g.workloads {
				c.samples[w.title] = append(c.samples[w.title], samples[i])
			}
			return
		}
		if try == maxTries {
			b.Fatalf("%d times in a row: %v", try, err)
		}
	}
}

// try applies the workloads of a group slice by slice in turn, so that whatever else happens on the machine meets all of them.
// Another one is first in every round.
func (c *cost) try(b *testing.B, g group, round int) ([]sample, error) {
	b.Helper()
	n := len(g.workloads)
	tallies, samples := make([]*tally, n), make([]sample, n)
	for i, w := range g.workloads {
		tallies[i] = &tally{workload: w, party: c.get(w.at)}
		tallies[i].begin(b)
	}
	for i := range c.slices * n {
		if t := tallies[(round+i)%n]; !t.paced || i < n {
			t.slice(b)
		}
	}
	for i, t := range tallies {
		var err error
		if samples[i], err = t.end(b); err != nil {
			return nil, err
		}
	}
	return samples, nil
}
