// Package display formats numbers, times and tables for people: in one or two units, in aligned columns, and without
// terminal control characters.
package display

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Table is text in columns.
type Table struct {
	Indent   int // columns
	MaxWidth int // widest cell for alignment; longer cells stand out. 0 is 40
	rows     [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Write prints the aligned cells.
func (t *Table) Write(w io.Writer) {
	maxWidth := t.MaxWidth
	if maxWidth == 0 {
		maxWidth = 40
	}
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row[:max(len(row)-1, 0)] { // the last cell needs no width
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if n := utf8.RuneCountInString(cell); n <= maxWidth {
				widths[i] = max(widths[i], n)
			}
		}
	}
	for _, row := range t.rows {
		line := strings.Repeat(" ", t.Indent)
		for i, cell := range row {
			line += cell
			if i < len(row)-1 {
				line += strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), 0)+2)
			}
		}
		Line(w, line)
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
