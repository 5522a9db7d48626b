// Package display formats numbers, times and tables for people: in one or two units, in aligned columns, and without
// terminal control characters.
package display

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// Table is text in columns.
type Table struct {
	Indent int // columns
	rows   [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Write prints the aligned cells.
func (t *Table) Write(w io.Writer) {
	var text strings.Builder
	aligned := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		for i, cell := range row {
			row[i] = Printable(cell)
		}
		_, _ = fmt.Fprintln(aligned, strings.Repeat(" ", t.Indent)+strings.Join(row, "\t")) // a Builder takes all
	}
	_ = aligned.Flush()
	for line := range strings.Lines(text.String()) {
		Line(w, strings.TrimSuffix(line, "\n"))
	}
}

// Line prints a line.
func Line(w io.Writer, text string) {
	_, _ = fmt.Fprintln(w, strings.TrimRight(Printable(text), " ")) // the reader may be gone
}

// Clip makes s printable and limits it to most characters, for user input in messages.
func Clip(s string, maxWidth int) string {
	s = Printable(s)
	if utf8.RuneCountInString(s) <= maxWidth {
		return s
	}
	return string([]rune(s)[:max(maxWidth-1, 0)]) + "…"
}

// Printable replaces terminal control characters.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
