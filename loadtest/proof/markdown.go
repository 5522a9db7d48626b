package proof

import (
	"fmt"
	"strings"
)

// Markdown is the page as docs/proof.md has it.
func (d *Document) Markdown() string {
	var b strings.Builder
	b.WriteString(introduction)
	d.claimTable(&b)
	fleets := fleetSection(d.Parts.Fleets)
	fleets.write(&b)
	for _, t := range tables() {
		s := t.section(d.Results.Tables[t.Scenario])
		s.write(&b)
	}
	for _, s := range d.Parts.sections() {
		s.write(&b)
	}
	writeOthers(&b)
	return b.String()
}

const introduction = "# Proof\n\n" +
	"<!-- written by make proof; a test holds it to loadtest/proof/results -->\n\n" +
	"Every claim of Foregate, measured. `make proof` measures this page again in at most 20 minutes on two cores.\n" +
	"A claim that does not hold stays here, with what was reached. Most goals are figures that others have published, seldom with their load.\n\n" +
	"**Nothing was measured on a GPU.** Engines are `vllmsim`, which follows vLLM's scheduler with step times from a hardware model " +
	"([how far to trust it](measurements.md#simulated-drafts)). So figures compare policies; they do not predict a bill. [Real pairs](#real-pairs) are small models on the CPU.\n"

// claimTable writes the claims.
func (d *Document) claimTable(b *strings.Builder) {
	b.WriteString("\n## Claims\n\n")
	fmt.Fprintf(b, "Mean ± standard deviation of %d seeds in virtual time, or of rounds live. The ratio is Foregate ÷ baseline, of each seed or round. `bin/loadtest proof --only ID` measures a row again; those of the overhead, `make bench`.\n\n", len(d.Results.Seeds))
	row(b, "ID", "claim", "baseline", "Foregate", "ratio", "goal", "verdict")
	line(b, 7)
	var notes []string
	for i := range d.Claims {
		c := &d.Claims[i]
		id := "`" + c.ID + "`"
		if c.Note != "" {
			notes = append(notes, "- "+id+": "+c.Note)
		}
		row(b, append([]string{id, c.Text + c.where()}, d.cells(c)...)...)
	}
	b.WriteString("\n" + strings.Join(notes, "\n") + "\n")
}

// where names the scenario and the cases.
func (c *Claim) where() string {
	s, ok := c.Source.(Cases)
	if !ok {
		return ""
	}
	return fmt.Sprintf(" (`%s`: *%s* beside *%s*)", s.Scenario, s.Foregate, s.Baseline)
}

// Summary is the README's table of claims.
func (d *Document) Summary() string {
	var b strings.Builder
	row(&b, "what", "figure")
	line(&b, 2)
	for i := range d.Claims {
		c := &d.Claims[i]
		if c.Headline != "" {
			row(&b, c.Headline, c.figure(figures(d.Results.of(c))))
		}
	}
	return b.String()
}

// figure is the headline's figure: a change in percent for money, a ratio for times, else both figures.
func (c *Claim) figure(f Figures) string {
	switch {
	case f.Foregate.N == 0:
		return "not measured"
	case c.Goal.Of != Ratio:
		return fmt.Sprintf("%s (%s)", c.Unit.Text(f.Foregate.Mean), c.Unit.Text(f.Baseline.Mean))
	case c.Unit == dollars:
		return percentChange(f.Ratio)
	}
	return times.Spread(f.Ratio)
}

// percentChange writes a ratio as a change, to whole percents.
func percentChange(ratio Spread) string {
	v := 100 * (ratio.Mean - 1)
	sign := "+"
	if v < 0 {
		sign, v = "−", -v
	}
	return fmt.Sprintf("%s%.0f %% (± %.0f)", sign, v, 100*ratio.SD)
}

// row writes one row of a table.
func row(b *strings.Builder, cells ...string) {
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", "\\|")
	}
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func line(b *strings.Builder, n int) { b.WriteString(strings.Repeat("|---", n) + "|\n") }
