// Package display formats numbers, times and tables for people: in one or two units, in columns that fit the
// terminal, and without terminal control characters.
package display

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// MinColumns is the narrowest terminal for which text is wrapped.
const MinColumns = 40

// Table is text in columns.
type Table struct {
	Indent   int // columns
	MaxWidth int // widest cell for alignment; longer cells stand out. 0 is 40
	rows     [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Write prints the aligned cells. Text that is too long for the terminal is wrapped within its column.
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
		line, hang := strings.Repeat(" ", t.Indent), t.Indent
		for i, cell := range row {
			hang = utf8.RuneCountInString(line)
			line += Printable(cell)
			if i < len(row)-1 {
				line += strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), 0)+2)
			}
		}
		WriteLine(w, hang, line)
	}
}

// WriteLine prints a line. On a narrow terminal it is wrapped, and later lines are indented by hang.
func WriteLine(w io.Writer, hang int, text string) {
	for _, line := range fold(Printable(text), hang, Columns(w)) {
		_, _ = fmt.Fprintln(w, line) // the reader may be gone
	}
}

// fold wraps text at spaces into lines of at most width characters. All lines but the first are indented by
// hang, or by half of the width if that is less. Longer words are not broken. A width below MinColumns wraps
// nothing.
func fold(text string, hang, width int) []string {
	text = strings.TrimRight(text, " ")
	if width < MinColumns {
		return []string{text}
	}
	indent := strings.Repeat(" ", min(hang, width/2))
	var lines []string
	start := "" // indent of the next line
	for {
		rest := []rune(text)
		room := width - len(start)
		if len(rest) <= room {
			return append(lines, start+text)
		}
		at := lastSpace(rest[:room+1])
		if at < 0 { // the first word is longer than a line
			if at = nextSpace(rest); at < 0 {
				return append(lines, start+text)
			}
		}
		lines = append(lines, start+strings.TrimRight(string(rest[:at]), " "))
		text, start = strings.TrimLeft(string(rest[at:]), " "), indent
	}
}

// lastSpace is the index of the last space behind a word; −1 if there is none.
func lastSpace(text []rune) int {
	for i := len(text) - 1; i > 0; i-- {
		if text[i] == ' ' && strings.TrimSpace(string(text[:i])) != "" {
			return i
		}
	}
	return -1
}

// nextSpace is the index of the first space behind a word; −1 if there is none.
func nextSpace(text []rune) int {
	word := false
	for i, r := range text {
		if word && r == ' ' {
			return i
		}
		word = word || r != ' '
	}
	return -1
}

// Columns is the width of the terminal behind w; 0 if w is not a terminal.
func Columns(w io.Writer) int {
	switch w := w.(type) {
	case interface{ Columns() int }:
		return w.Columns()
	case *os.File:
		if size, err := unix.IoctlGetWinsize(int(w.Fd()), unix.TIOCGWINSZ); err == nil {
			return int(size.Col)
		}
	}
	return 0
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
