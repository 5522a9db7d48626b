package main

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/foregate/foregate/loadtest"
)

type agreeCmd struct {
	Scenario string        `arg:"" help:"A scenario's file, or a name that loadtest list tells."`
	Seeds    int           `default:"5" help:"So many seeds from the scenario's on."`
	Case     []string      `sep:"none" help:"Only the case of this name; may be given again."`
	Duration time.Duration `help:"For how long conversations begin, instead of the scenario's duration."`
	Gateway  string        `placeholder:"PATH" help:"The gateway's binary; default foregate beside this program, then in PATH."`
}

// maxStandardErrors is how many standard errors two means may differ by. With five seeds of each
// kind, chance alone passes it about once in sixty columns (Student's t, 8 degrees
// of freedom).
const maxStandardErrors = 3

// Run measures both ways and compares column by column.
func (c *agreeCmd) Run(e *env) error {
	if c.Seeds < 2 || c.Seeds > 100 {
		return misuse("--seeds %d: want 2 to 100; one has no noise to compare with", c.Seeds)
	}
	var reports [2][]*loadtest.Report
	for i, kind := range []string{loadtest.Live, loadtest.Virtual} {
		r := runCmd{Scenario: c.Scenario, Virtual: kind == loadtest.Virtual, Live: kind == loadtest.Live, Seeds: c.Seeds, Case: c.Case, Duration: c.Duration}
		if r.Live {
			r.Gateway = c.Gateway
		}
		var err error
		if reports[i], err = r.reports(e); err != nil {
			return err
		}
	}
	agree := true
	for i := range reports[0][0].Results {
		text, ok := compare(caseRows(reports[0], i), caseRows(reports[1], i))
		e.say("%s, %s: %d seeds, live beside virtual\n\n%s\n", reports[0][0].Scenario.Name, reports[0][0].Results[i].Case, c.Seeds, text)
		agree = agree && ok
	}
	if !agree {
		return fmt.Errorf("live and virtual differ by more than %d standard errors in the columns marked so", maxStandardErrors)
	}
	e.say("Live and virtual agree: no column differs by more than %d standard errors.\n", maxStandardErrors)
	return nil
}

// caseRows are a case's rows, one of each seed.
func caseRows(reports []*loadtest.Report, i int) []reflect.Value {
	var rows []reflect.Value
	for _, r := range reports {
		rows = append(rows, reflect.ValueOf(r.Results[i].Row()))
	}
	return rows
}

// isComputed reports whether only a virtual run has a column: those of a promise, and of what the target was asked.
func isComputed(f number) bool {
	table := reflect.TypeFor[loadtest.Row]().Field(f.index).Tag.Get("table")
	return strings.HasPrefix(table, "Promise|") || f.name == "checked_share" || f.name == "scored_share"
}

// compare prints every column's means, and reports whether they are near enough for
// the noise that the seeds make. Columns without noise must be equal.
func compare(live, virtual []reflect.Value) (text string, ok bool) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "\tlive\t± sd\tvirtual\t± sd\tdifference\tstandard errors\t") // memory takes everything
	ok = true
	for _, f := range numbers() {
		if isComputed(f) {
			continue
		}
		a, sdA := moments(live, f.index)
		v, sdV := moments(virtual, f.index)
		noise := math.Sqrt(sdA*sdA/float64(len(live)) + sdV*sdV/float64(len(virtual)))
		off, mark := 0.0, ""
		switch {
		case a == v:
		case noise == 0:
			off, mark = math.Inf(1), "  differs"
		default:
			if off = (v - a) / noise; math.Abs(off) > maxStandardErrors {
				mark = "  differs"
			}
		}
		ok = ok && mark == ""
		share := "–"
		if a != 0 {
			share = fmt.Sprintf("%+.1f %%", 100*(v/a-1))
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%.2g\t%s\t%.2g\t%s\t%+.2f%s\t\n", f.name, plain(a), sdA, plain(v), sdV, share, off, mark)
	}
	_ = w.Flush() // as above
	return b.String(), ok
}

// plain prints four digits, and more rather than an exponent.
func plain(v float64) string {
	if math.Abs(v) >= 10_000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}
