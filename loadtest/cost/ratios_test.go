package cost

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "measure five times and rewrite testdata/ratios.txt")

const (
	ratiosFile  = "testdata/ratios.txt"
	updateRuns  = 5
	minSpread   = 0.05 // of the median: five runs may be alike by chance
	ratiosTitle = "# Ratios of five runs of BenchmarkCost: median, lowest, highest, row. Written by go test -bench Cost -benchtime 1x -timeout 1h ./loadtest/cost -update\n"
)

// committed is what five runs gave for a row: the median, the lowest and the highest ratio. Zero: it is not committed.
type committed struct{ median, low, high float64 }

func (c committed) String() string {
	if c.median == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", c.median, c.low, c.high)
}

// limit is the highest ratio that the spread of the five runs explains.
func (c committed) limit() float64 { return c.median + max(c.high-c.low, minSpread*c.median) }

// readRatios reads the committed ratios by the title of their row.
func readRatios(b *testing.B) map[string]committed {
	b.Helper()
	text, err := os.ReadFile(ratiosFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.Fatal(err)
	}
	list := map[string]committed{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var c committed
		if _, err := fmt.Sscan(line, &c.median, &c.low, &c.high); err != nil {
			b.Fatalf("%s: %q: %v", ratiosFile, line, err)
		}
		fields := strings.Fields(line)
		list[strings.Join(fields[3:], " ")] = c
	}
	return list
}

// updateRatios measures four times more, each with new processes, and writes the file.
func (c *cost) updateRatios(b *testing.B) {
	b.Helper()
	runs := map[string][]float64{}
	var titles []string
	for run := range updateRuns {
		one := c
		if run > 0 {
			one = &cost{form: c.form, parties: c.again(), groups: c.groups}
			one.measure(b)
		}
		for _, r := range one.results() {
			if run == 0 {
				titles = append(titles, r.title)
			}
			runs[r.title] = append(runs[r.title], r.ratio)
		}
		one.stop()
		fmt.Printf("run %d of %d\n", run+1, updateRuns)
	}
	text := ratiosTitle
	for _, title := range titles {
		text += fmt.Sprintf("%.3f %.3f %.3f %s\n", quantile(runs[title], 0.5), slices.Min(runs[title]), slices.Max(runs[title]), title)
	}
	if err := os.WriteFile(ratiosFile, []byte(text), 0o644); err != nil { //nolint:gosec // a file of the repository
		b.Fatal(err)
	}
}

// checkRatios fails if a ratio is beyond the spread of the committed runs, and again when its row is measured anew: with this
// many rows one is always beyond its spread by chance.
func (c *cost) checkRatios(b *testing.B) {
	b.Helper()
	var beyond []string
	for _, r := range c.results() {
		switch have, ok := c.committed[r.title]; {
		case !ok:
			b.Errorf("%s: no committed ratio: run with -update", r.title)
		case r.ratio > have.limit():
			fmt.Printf("%s: %.2f is beyond %.2f, and is measured again\n", r.title, r.ratio, have.limit())
			beyond = append(beyond, regexp.QuoteMeta(r.title))
		}
	}
	if len(beyond) == 0 {
		return
	}
	c.choose(b, "^("+strings.Join(beyond, "|")+")$")
	c.delays = nil
	c.measure(b)
	for _, r := range c.results() {
		if have := c.committed[r.title]; r.ratio > have.limit() {
			b.Errorf("%s costs %.2f times what it is compared with, twice above %.2f, which the spread of five runs (%v) explains", r.title, r.ratio, have.limit(), have)
		}
	}
}
