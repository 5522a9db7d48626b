package accept

import (
	"bytes"
	"strings"
)

// minFence is the fewest backticks or tildes of a fence.
const minFence = 3

// fenceOpen reports whether a fenced block of code has no end. Fences may stand behind
// any indent, quote mark or list marker: models put them there, and an end that is
// missed would be taken for another beginning.
func fenceOpen(text []byte) bool {
	var mark byte // of the open fence, 0 where none is open
	open := 0     // its length
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		text = rest
		char, n, info := fence(line, mark == 0)
		switch {
		case n < minFence:
		case mark == 0:
			if char == '~' || bytes.IndexByte(info, '`') < 0 {
				mark, open = char, n
			}
		case char == mark && n >= open && len(bytes.TrimSpace(info)) == 0:
			mark = 0
		}
	}
	return mark != 0
}

// fence is what a line's fence is made of, how long it is and what follows; n is 0 where
// the line does not begin with one. Only a fence that opens a block may follow a list's
// marker.
func fence(line []byte, opens bool) (char byte, n int, info []byte) {
	line = bytes.TrimLeft(line, " \t>")
	for opens {
		inner := item(line)
		if len(inner) == len(line) {
			break
		}
		line = inner
	}
	if len(line) == 0 || line[0] != '`' && line[0] != '~' {
		return 0, 0, nil
	}
	char = line[0]
	for n < len(line) && line[n] == char {
		n++
	}
	return char, n, line[n:]
}

// item is a line without the list marker that it begins with: "- ", "* ", "+ ", "1. ", "1) ".
func item(line []byte) []byte {
	i := 0
	for i < len(line) && '0' <= line[i] && line[i] <= '9' {
		i++
	}
	marks := ".)"
	if i == 0 {
		marks = "-*+"
	}
	if i+1 >= len(line) || strings.IndexByte(marks, line[i]) < 0 || line[i+1] != ' ' {
		return line
	}
	return bytes.TrimLeft(line[i+2:], " \t>")
}
