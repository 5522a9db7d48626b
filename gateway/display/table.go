// Package display formats numbers, times and tables for people: in one or two units, in aligned columns, and without
// terminal control characters.
package display

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/foregate/foregate/internal/words"
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
			row[i] = words.Printable(cell)
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
	_, _ = fmt.Fprintln(w, strings.TrimRight(words.Printable(text), " ")) // the reader may be gone
}
