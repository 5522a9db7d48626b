package settings

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxShown bounds how much of a foreign name or value is shown.
const maxShown = 64

// show makes foreign text safe for a log field, a label and a terminal: printable, valid UTF-8, at most
// maxShown bytes.
func show(s string) string { return showTo(s, maxShown) }

// showTo is show with another limit in bytes.
func showTo(s string, maxLen int) string {
	const mark = "…"
	var b strings.Builder
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			r = '?'
		}
		if b.Len()+utf8.RuneLen(r) <= maxLen {
			b.WriteRune(r)
			continue
		}
		kept := b.String()
		for len(kept) > maxLen-len(mark) {
			_, last := utf8.DecodeLastRuneInString(kept)
			kept = kept[:len(kept)-last]
		}
		return kept + mark
	}
	return b.String()
}

// showValue is show for a value. A value that is too long to be read is not shown: how much of it is
// available depends on how it was read.
func showValue(s string) string {
	if len(s) > maxValue {
		return "…"
	}
	return show(s)
}

// unknown is the reason for a name that does not exist.
func unknown(name string) string {
	names := make([]string, len(specs))
	for i := range specs {
		names[i] = specs[i].Name
	}
	return "unknown setting" + near(name, names)
}

// near returns the known name with at most two typing errors, if there is one.
func near(name string, known []string) string {
	if name == "" || len(name) > maxShown {
		return ""
	}
	best, minDistance := "", 3
	for _, k := range known {
		if d := distance(name, k); d < minDistance && d < len(k) {
			best, minDistance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + show(best) + "?"
}

// distance is Levenshtein's, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// Reference returns the table of all settings in Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString("| setting | default | allowed | per route | meaning |\n|---|---|---|---|---|\n")
	for _, s := range Specs() {
		b.WriteString("| " + strings.Join(slices.Concat(row(s), []string{s.Doc}), " | ") + " |\n")
	}
	return b.String()
}

func row(s Spec) []string {
	perRoute := "yes"
	if !s.PerRoute {
		perRoute = "no"
	}
	return []string{"`" + s.Name + "`", "`" + s.Default + "`", s.Range, perRoute}
}
