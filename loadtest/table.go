package loadtest

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	tableWidth   = 120 // characters
	minNameWidth = 13  // of a case's name, before it is broken into lines
	maxNameWidth = 28
)

// Table is the report as aligned text: a line for each metric, a column for each
// case, and behind each number how it compares with the first case's. Cases that
// do not fit beside each other follow in a further table, beside the first
// again.
func (r *Report) Table() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s — %s run, seed %d\n", nonEmpty(r.name(), "unnamed"), nonEmpty(r.Kind, "unknown"), r.Seed)
	for _, line := range wrap(r.about(), tableWidth) {
		fmt.Fprintln(b, line)
	}
	if r.Command != "" {
		fmt.Fprintln(b, "$", r.Command)
	}
	cases := r.measured()
	if len(cases) == 0 {
		return b.String() + "\nNo case was run.\n"
	}
	labels := labels(cases)
	columns := columns(cases, min(max((tableWidth-labels.width)/len(cases)-2, minNameWidth), maxNameWidth))
	for _, part := range parts(labels.width, columns) {
		fmt.Fprintln(b)
		beside(b, labels, part)
	}
	if len(cases) > 1 {
		fmt.Fprintf(b, "\n×: times the first case's, %s. TTFT: time to first token; E2E: to the last.\n", cases[0].Name)
	} else {
		b.WriteString("\nTTFT: time to first token; E2E: to the last.\n")
	}
	notes := slices.Clone(r.Notes)
	for _, res := range r.Results {
		notes = append(notes, res.Notes...)
	}
	for _, note := range notes {
		for i, line := range wrap(note, tableWidth-2) {
			fmt.Fprintln(b, []string{"*", " "}[min(i, 1)], line)
		}
	}
	return b.String()
}

// column is what is printed under one heading. A text that is a section's name
// stands above the lines that follow.
type column struct {
	head      []string
	cells     []string // as many in all columns
	width     int
	alignLeft bool // aligned
}

// labels is the column of names.
func labels(cases []measured) column {
	c := column{alignLeft: true}
	for _, s := range metrics(cases) {
		c.cells = append(c.cells, "", strings.ToUpper(s.name))
		for _, m := range s.metrics {
			c.cells = append(c.cells, strings.TrimSuffix(m.name+", "+m.unit.label(), ", "))
		}
	}
	c.fit()
	return c
}

// columns are those of the cases, with names of so many characters in a line. The
// first has no ratios.
func columns(cases []measured, name int) []column {
	out := []column{}
	for i, m := range cases {
		values, ratios := column{}, column{alignLeft: true}
		for _, s := range metrics(cases) {
			values.cells = append(values.cells, "", "")
			ratios.cells = append(ratios.cells, "", "")
			for _, x := range s.metrics {
				values.cells = append(values.cells, x.text(m))
				ratios.cells = append(ratios.cells, x.ratio(m, cases[0]))
			}
		}
		values.fit()
		if i > 0 {
			ratios.fit()
			values.join(ratios)
		}
		values.head = broken(nonEmpty(m.Name, "–"), max(name, values.width))
		values.fit()
		out = append(out, values)
	}
	return out
}

// fit sets the width to that of the widest text.
func (c *column) fit() {
	for _, s := range slices.Concat(c.head, c.cells) {
		c.width = max(c.width, utf8.RuneCountInString(s))
	}
}

// join puts another column's cells behind these.
func (c *column) join(o column) {
	for i := range c.cells {
		c.cells[i] = c.pad(c.cells[i]) + " " + o.pad(o.cells[i])
	}
	c.width += 1 + o.width
}

// pad fills a text up to the column's width.
func (c *column) pad(s string) string {
	space := strings.Repeat(" ", max(c.width-utf8.RuneCountInString(s), 0))
	if c.alignLeft {
		return s + space
	}
	return space + s
}

// parts divides the columns into tables that have room, as few and as even as
// can be, each with the first column.
func parts(labels int, columns []column) [][]column {
	first, rest := columns[0], columns[1:]
	minimum := 0
	for left := rest; len(left) > 0; minimum++ {
		left = left[fitting(labels, first.width, left):]
	}
	out := [][]column{}
	for ; len(rest) > 0; minimum-- {
		even := (len(rest) + max(minimum, 1) - 1) / max(minimum, 1)
		n := min(even, fitting(labels, first.width, rest))
		out = append(out, slices.Concat([]column{first}, rest[:n]))
		rest = rest[n:]
	}
	if len(out) == 0 {
		return [][]column{{first}}
	}
	return out
}

// fitting is how many more columns have room, at least one if there is one.
func fitting(labels, first int, rest []column) int {
	room := tableWidth - labels - 2 - first
	for i, c := range rest {
		if room -= 2 + c.width; room < 0 {
			return max(i, 1)
		}
	}
	return len(rest)
}

// beside prints columns beside each other.
func beside(b *strings.Builder, labels column, cases []column) {
	tall := 0
	for _, c := range cases {
		tall = max(tall, len(c.head))
	}
	line := func(label string, cell func(c column) string) {
		text := labels.pad(label)
		for _, c := range cases {
			text += "  " + c.pad(cell(c))
		}
		fmt.Fprintln(b, strings.TrimRight(text, " "))
	}
	for i := range tall {
		line("", func(c column) string {
			return slices.Concat(make([]string, tall-len(c.head)), c.head)[i] // down on the numbers
		})
	}
	for i, label := range labels.cells {
		if i == 0 {
			continue // the headings stand apart already
		}
		line(label, func(c column) string { return c.cells[i] })
	}
}

// wrap breaks text into lines of whole words.
func wrap(text string, width int) []string {
	lines := []string{}
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last < 0 || utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, word)
			continue
		}
		lines[last] += " " + word
	}
	return lines
}

// broken breaks a name into lines, behind hyphens and at spaces, or anywhere if
// there is nothing else.
func broken(name string, width int) []string {
	lines, line := []string{}, ""
	for _, part := range strings.Split(breaks.Replace(name), "\x00") {
		if line != "" && utf8.RuneCountInString(line+strings.TrimSpace(part)) > width {
			lines, line = append(lines, strings.TrimSpace(line)), ""
		}
		line += part
		for runes := []rune(line); len(runes) > width && strings.TrimSpace(string(runes[width:])) != ""; runes = []rune(line) {
			lines, line = append(lines, string(runes[:width])), string(runes[width:])
		}
	}
	return append(lines, strings.TrimSpace(line))
}

// breaks marks where a name may be broken.
var breaks = strings.NewReplacer(" ", " \x00", "-", "-\x00", "_", "_\x00", "/", "/\x00", "\x00", "")

func nonEmpty(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}
