package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// width is how many columns of a terminal are used.
const width = 100

// table is text in columns, for people.
type table struct {
	indent int // columns
	most   int // of one cell but the last of its line; 0 is 40
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write aligns the cells. What is too long is cut, so that a line fits the width.
func (t *table) write(w io.Writer) {
	most := t.most
	if most == 0 {
		most = 40
	}
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i < len(row)-1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cut(cell, most)))
			}
		}
	}
	for _, row := range t.rows {
		line := strings.Repeat(" ", t.indent)
		for i, cell := range row {
			if i < len(row)-1 {
				cell = cut(cell, most)
				line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
				continue
			}
			line += printable(cell)
		}
		_, _ = fmt.Fprintln(w, strings.TrimRight(cut(line, width), " ")) // whoever reads may be gone
	}
}

// cut makes s printable and no longer than most characters.
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
