package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/tiers/compare"
	"github.com/foregate/foregate/tiers/compare/shared"
)

type compareCmd struct {
	redisFlags
	Route string `arg:"" optional:"" help:"Only this route." placeholder:"ROUTE"`
	JSON  bool   `xor:"form" help:"As JSON, one value per pair of pools. Times are in seconds."`
	Reset bool   `xor:"form" help:"Forget what is known of the pairs of ROUTE."`
}

// compared is what is known of a pair.
type compared struct {
	compare.Report
	Mirror compare.MirrorCost `json:"mirror"`
}

// Run reads the sums of all replicas, and prints a table per pair, or forgets them.
func (c *compareCmd) Run(e *env) error {
	if c.Reset && c.Route == "" {
		return errors.New("--reset: name the route whose comparisons are to be forgotten")
	}
	d, err := c.open(e.ctx)
	if err != nil {
		return err
	}
	defer d.close()
	store := shared.New(shared.Options{Client: d.client})
	all, err := store.Read(d.ctx, c.Route)
	if err != nil {
		return err
	}
	pairs := slices.SortedFunc(maps.Keys(all), func(a, b compare.Pair) int {
		return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Incumbent, b.Incumbent), cmp.Compare(a.Candidate, b.Candidate),
			-cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Shares[1], b.Shares[1]), cmp.Compare(a.Shares[0], b.Shares[0])) // the mirror comes first
	})
	if len(pairs) == 0 && !c.JSON {
		_, err = fmt.Fprintln(e.stdout, "nothing was compared yet: a route compares pools where it has targets or mirror")
		return err
	}
	for _, p := range pairs {
		b := all[p]
		report := compared{compare.NewReport(p, &b.Incumbent, &b.Candidate), b.Mirror}
		switch {
		case c.Reset:
			if err = store.Reset(d.ctx, p); err == nil {
				_, err = fmt.Fprintf(e.stdout, "forgot %s\n", pairTitle(p))
			}
		case c.JSON:
			err = writeLines(e.stdout, report)
		default:
			err = printComparison(e.stdout, &report)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func pairTitle(p compare.Pair) string {
	return fmt.Sprintf("%s: incumbent %s, candidate %s as %s of %.4g %%", display.Clip(p.Route, 60), display.Clip(p.Incumbent, 120),
		display.Clip(p.Candidate, 120), p.Kind, 100*p.Shares[1])
}

// comparisonNotes says what a table can and cannot say.
const comparisonNotes = `Intervals hold at 95 % per row however often they are looked at; rows are not corrected for one another. Each replica counts
one request of a conversation. Other weights or shares begin a new comparison.
acceptance: how many of the judged drafts were served; with a mirror, how often each pool stands by the drafts that were
served. agreement: how often the pool in force stands by the answers of both; it says how alike they are to that pool, not
which is right. mirrored_total: seconds, without a verdict, because clients and queues have a part in the incumbent's.
`

// valueText formats one side of a row, "-" without values.
func valueText(v *compare.Value) string {
	if v.N == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g", v.Value)
}

// printComparison prints a table. Times are in seconds.
func printComparison(out io.Writer, r *compared) error {
	_, _ = fmt.Fprintln(out, pairTitle(r.Pair))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\tincumbent\tcandidate\tdifference\tverdict\tn")
	for _, row := range r.Rows {
		difference := "-"
		if row.Difference != nil && row.Incumbent.N > 0 && row.Candidate.N > 0 {
			difference = fmt.Sprintf("%+.4g … %+.4g", row.Difference.Low, row.Difference.High)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.0f, %.0f\n", row.Name, valueText(&row.Incumbent), valueText(&row.Candidate),
			difference, row.Verdict, row.Incumbent.N, row.Candidate.N)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if m := &r.Mirror; m.Made+m.Skipped > 0 {
		_, _ = fmt.Fprintf(out, "mirror: %.0f made, %.0f skipped (%.0f failed), %.0f tokens generated, %.0f scored, %.4g USD\n",
			m.Made, m.Skipped, m.Failed, m.Generated, m.Scored, m.USD)
	}
	_, err := fmt.Fprintf(out, "%s\n", comparisonNotes)
	return err
}
