package proof

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Text is the claims' table for a terminal.
func (d *Document) Text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "CLAIM\tPUBLISHED\tBASELINE\tFOREGATE\tRATIO\tGOAL\tVERDICT") // a builder takes everything
	for i := range d.Claims {
		cells := d.cells(&d.Claims[i])
		_, _ = fmt.Fprintln(w, strings.Join(append([]string{d.Claims[i].ID}, cells...), "\t"))
	}
	_ = w.Flush() // as above
	return b.String()
}

// cells are a claim's published figure, baseline, figure, ratio, goal and verdict.
func (d *Document) cells(c *Claim) []string {
	pairs := d.Results.of(c)
	f := figures(pairs)
	baseline, foregate, ratio := "", "", ""
	if f.Foregate.N > 0 {
		foregate = c.Unit.Spread(f.Foregate)
	}
	if f.Ratio.N > 0 {
		ratio = times.Spread(f.Ratio)
	}
	if f.Baseline.Max > 0 {
		baseline = c.Unit.Spread(f.Baseline)
	}
	return []string{baseline, foregate, ratio, c.Goal.text(c.Unit), string(c.verdict(pairs))}
}
