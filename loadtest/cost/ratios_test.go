package cost

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// isReference reports whether a row does not measure the gateway.
func (r row) isReference() bool { return strings.HasPrefix(r.title, nginx) }

// updateRatios measures four times more, each time with new processes, and writes the file. Rows that were not chosen stay.
func (c *cost) updateRatios(b *testing.B) {
	b.Helper()
	runs := map[string][]float64{}
	for run := range updateRuns {
		one := c
		if run > 0 {
			one = &cost{form: c.form, parties: c.again(), groups: c.groups}
			one.measure(b)
		}
		for _, r := range one.results() {
			runs[r.title] = append(runs[r.title], r.ratio)
		}
		one.stop()
		fmt.Printf("run %d of %d\n", run+1, updateRuns)
	}
	for title, list := range runs {
		c.committed[title] = committed{quantile(list, 0.5), slices.Min(list), slices.Max(list)}
	}
	text := ratiosTitle
	for _, g := range groups(c.form) {
		for _, r := range g.rows {
			if have, ok := c.committed[r.title]; ok && !r.isReference() {
				text += fmt.Sprintf("%.3f %.3f %.3f %s\n", have.median, have.low, have.high, r.title)
			}
		}
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(ratiosFile), 0o755), os.WriteFile(ratiosFile, []byte(text), 0o644)); err != nil { //nolint:gosec // files of the repository
		b.Fatal(err)
	}
}

// checkRatios fails if a ratio is beyond the spread of the committed runs, and again when its row is measured anew: of so many
// rows some are beyond it by chance.
func (c *cost) checkRatios(b *testing.B) {
	b.Helper()
	beyond := c.beyond(b)
	if len(beyond) == 0 {
		return
	}
	fmt.Printf("Beyond the spread of the committed runs, and measured again: %s\n", strings.Join(beyond, "; "))
	for i, title := range beyond {
		beyond[i] = regexp.QuoteMeta(title)
	}
	c.choose(b, "^("+strings.Join(beyond, "|")+")$")
	c.delays = nil
	c.measure(b)
	c.table()
	for _, title := range c.beyond(b) {
		b.Errorf("%s: twice above %.2f, which is all that the spread of five runs explains (%v)", title, c.committed[title].limit(), c.committed[title])
	}
}

// beyond are the rows whose ratio is beyond the spread of the committed runs.
func (c *cost) beyond(b *testing.B) []string {
	b.Helper()
	var list []string
	for _, r := range c.results() {
		have, ok := c.committed[r.title]
		switch {
		case r.isReference():
		case !ok:
			b.Errorf("%s: no committed ratio: run with -update", r.title)
		case r.ratio > have.limit():
			list = append(list, r.title)
		}
	}
	return list
}
