package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// minColumns is the narrowest terminal that text is broken into lines for.
const minColumns = 40

// table is text in columns, for people.
type table struct {
	indent int // columns
	most   int // columns of a cell that others are aligned by; a longer one stands out. 0 is 40
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write aligns the cells. All text is written: what is too long for a terminal goes on below its column.
func (t *table) write(w io.Writer) {
	most := t.most
	if most == 0 {
		most = 40
	}
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row[:max(len(row)-1, 0)] { // the last of a line has no width
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if n := utf8.RuneCountInString(cell); n <= most {
				widths[i] = max(widths[i], n)
			}
		}
	}
	for _, row := range t.rows {
		line, hang := strings.Repeat(" ", t.indent), t.indent
		for i, cell := range row {
			hang = utf8.RuneCountInString(line)
			line += printable(cell)
			if i < len(row)-1 {
				line += strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), 0)+2)
			}
		}
		writeLine(w, hang, line)
	}
}

// writeLine writes a line of text. On a terminal that is too narrow it goes on below, hang columns from the left.
func writeLine(w io.Writer, hang int, text string) {
	for _, line := range fold(printable(text), hang, columns(w)) {
		_, _ = fmt.Fprintln(w, line) // whoever reads may be gone
	}
}

// fold breaks text at spaces into lines of no more than width characters, all but the first of them indented by hang, or by
// half the width where that is less. A word that fits no line is not broken. A width below minColumns breaks nothing.
func fold(text string, hang, width int) []string {
	text = strings.TrimRight(text, " ")
	if width < minColumns {
		return []string{text}
	}
	indent := strings.Repeat(" ", min(hang, width/2))
	var lines []string
	start := "" // of the next line
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

// lastSpace is the place of the last space behind a word; −1 where there is none.
func lastSpace(text []rune) int {
	for i := len(text) - 1; i > 0; i-- {
		if text[i] == ' ' && strings.TrimSpace(string(text[:i])) != "" {
			return i
		}
	}
	return -1
}

// nextSpace is the place of the first space behind a word; −1 where there is none.
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

// columns is how wide the terminal behind w is; 0 is none, whose lines are as long as they are.
func columns(w io.Writer) int {
	switch w := w.(type) {
	case interface{ columns() int }:
		return w.columns()
	case *os.File:
		if size, err := unix.IoctlGetWinsize(int(w.Fd()), unix.TIOCGWINSZ); err == nil {
			return int(size.Col)
		}
	}
	return 0
}

// cut makes s printable and no longer than most characters: for what was typed, in messages.
func cut(s string, most int) string {
	s = printable(s)
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:max(most-1, 0)]) + "…"
}

// printable replaces what a terminal might obey.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
