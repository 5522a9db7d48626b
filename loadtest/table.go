package loadtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// tableCases is how many cases stand beside each other.
const tableCases = 5

// Table is the report as aligned text: a line for each metric, a column for each
// case, and behind each number how it compares with the first case's. Cases beyond
// the fifth follow in a further table, beside the first again.
func (r *Report) Table() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s — %s run, seed %d\n", cmp.Or(r.name(), "unnamed"), cmp.Or(r.Kind, "unknown"), r.Seed)
	if about := strings.TrimSpace(r.about()); about != "" {
		fmt.Fprintln(b, about)
	}
	if r.Command != "" {
		fmt.Fprintln(b, "$", r.Command)
	}
	cases := r.measured()
	if len(cases) == 0 {
		return b.String() + "\nNo case was run.\n"
	}
	for rest := cases[1:]; ; {
		n := min(len(rest), tableCases-1)
		fmt.Fprintln(b)
		beside(b, cases, slices.Concat(cases[:1], rest[:n]))
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
	}
	if len(cases) > 1 {
		fmt.Fprintf(b, "\n×: times the first case's, %s. TTFT: time to first token; E2E: to the last.\n", cases[0].Name)
	} else {
		b.WriteString("\nTTFT: time to first token; E2E: to the last.\n")
	}
	for _, note := range r.notes(cases) {
		fmt.Fprintln(b, "*", note)
	}
	return b.String()
}

// notes are what a reader should know of the run and of its cases, and what was not answered.
func (r *Report) notes(cases []measured) []string {
	out := slices.Clone(r.Notes)
	for _, m := range cases {
		out = append(out, m.result.Notes...)
		var lost []string
		for _, d := range m.Details {
			lost = append(lost, fmt.Sprintf("%d %s", d.N, d.Name))
		}
		if len(lost) > 0 {
			out = append(out, m.Name+", not answered: "+strings.Join(lost, ", "))
		}
	}
	return out
}

// beside prints some of all cases beside each other; the first has no ratios.
func beside(b *strings.Builder, all, cases []measured) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	line := func(label string, cells []string) { // as many columns in every line; a builder takes everything
		_, _ = fmt.Fprintln(w, label+"\t"+strings.Join(cells, "\t")+strings.Repeat("\t", len(cases)+1-len(cells)))
	}
	var names []string
	for _, m := range cases {
		names = append(names, cmp.Or(m.Name, "–"))
	}
	line("", names)
	for _, section := range sections {
		lines := linesOf(section, all)
		if len(lines) > 0 {
			line(strings.ToUpper(section), nil)
		}
		for _, x := range lines {
			var cells []string
			for i := range cases {
				cell := x.text(&cases[i])
				if i > 0 {
					cell = strings.TrimSpace(cell + " " + x.ratio(&cases[i], &cases[0]))
				}
				cells = append(cells, cell)
			}
			line(strings.TrimSuffix(x.name+", "+x.unit.label(), ", "), cells)
		}
	}
	_ = w.Flush() // as above
	for l := range strings.Lines(text.String()) {
		b.WriteString(strings.TrimRight(l, " \n") + "\n")
	}
}
