package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// heading prints the table's head.
func heading(w io.Writer) error {
	_, err := io.WriteString(w, "| id | fault | promised | sent | answered | errors by kind | added latency: p99 outside the cascade / p99 / worst | recovered after | seen | verdict |\n"+
		"|---|---|---|---:|---:|---|---|---|---|---|\n")
	return err
}

// line prints one row.
func line(w io.Writer, r *Row, s *Result) error {
	_, err := fmt.Fprintf(w, "| %s | %s | %s | %d | %d | %s | %s / %s / %s | %s | %s | %s |\n", r.ID, cell(r.Fault), cell(r.Promise),
		s.Sent, s.Answered, kinds(s.Errors), since(s.FrontP99), since(s.AddedP99), since(s.AddedWorst), since(s.Recovered), cell(strings.Join(s.Notes, "; ")), cell(verdict(s)))
	return err
}

// verdict says whether the promise was kept, or what was broken.
func verdict(s *Result) string {
	if len(s.Failures) > 0 {
		return "**BROKEN**: " + strings.Join(s.Failures, "; ")
	}
	return "kept"
}

// cell is text that stays in its cell.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(s)
}

// kinds are counts by kind; 0 when there are none.
func kinds(m map[string]int) string {
	if len(m) == 0 {
		return "0"
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%d %s", m[k], k))
	}
	return strings.Join(out, ", ")
}

// since is a time in the table; none is a dash.
func since(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return round(d).String()
}
