package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxProblems bounds what one broken file can print.
const maxProblems = 50

// problem is one mistake in the file.
type problem struct {
	line int // 0 when it is not known
	text string
}

// reader walks the YAML tree, notes every mistake it meets and goes on. It
// remembers the line of every field, for the checks that come after.
type reader struct {
	name     string
	needs    string // what the file must hold at least
	lines    map[string]int
	bad      map[string]bool // fields with a mistake of their own
	problems []problem
}

// newReader makes a reader of a file that errors call name.
func newReader(name, needs string) *reader {
	return &reader{name: name, needs: needs, lines: map[string]int{}, bad: map[string]bool{}}
}

// add notes a mistake of field path, "" when it belongs to none.
func (r *reader) add(line int, path, text string) {
	if path != "" {
		r.bad[path] = true
		text = path + ": " + text
	}
	r.problems = append(r.problems, problem{line, text})
}

// fail notes a mistake at field path; the line is that of the field, or of the
// nearest field around it.
func (r *reader) fail(path, format string, args ...any) {
	line, at := 1, path
	for {
		if l, ok := r.lines[at]; ok {
			line = l
			break
		}
		if at == "" {
			break
		}
		at = at[:max(strings.LastIndexAny(at, ".["), 0)]
	}
	r.add(line, path, fmt.Sprintf(format, args...))
}

// has tells whether the file gives field path, well or badly.
func (r *reader) has(path string) bool {
	_, ok := r.lines[path]
	return ok
}

// sound tells whether nothing was found wrong with path itself so far.
func (r *reader) sound(path string) bool { return !r.bad[path] }

// err joins the mistakes, one per line, in the order of the file.
func (r *reader) err() error {
	slices.SortStableFunc(r.problems, func(a, b problem) int { return a.line - b.line })
	var all []error
	for i, p := range r.problems {
		if i == maxProblems {
			all = append(all, fmt.Errorf("%s: and %d more", r.name, len(r.problems)-maxProblems))
			break
		}
		at := r.name
		if p.line > 0 {
			at += ":" + strconv.Itoa(p.line)
		}
		all = append(all, errors.New(at+": "+p.text))
	}
	return errors.Join(all...)
}

// value reads one node into the place it was made for.
type value func(r *reader, path string, n *yaml.Node)

// read reads n, the value of field path, if it is a plain node.
func (r *reader) read(path string, n *yaml.Node, v value) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.fail(path, "anchors and aliases are not read; write the value out")
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		r.fail(path, "has no value; give one or remove the field")
	default:
		v(r, path, n)
	}
}

// group is a mapping with a fixed set of fields.
func group(fields map[string]value) value {
	return func(r *reader, path string, n *yaml.Node) {
		r.entries(path, n, func(at string, key, val *yaml.Node) {
			v, ok := fields[key.Value]
			if !ok {
				r.unknown(at, key, fields)
				return
			}
			r.read(at, val, v)
		})
	}
}

// entries walks a mapping whose keys are plain and differ.
func (r *reader) entries(path string, n *yaml.Node, each func(at string, key, val *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.fail(path, "want fields (name: value), got %s", kindOf(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || !safeName(key.Value) || key.Anchor != "" {
			// Not shown: a URL in the wrong place may carry a password.
			r.add(key.Line, path, "something here is not a field's name (1–64 of A-Z a-z 0-9 . _ -)")
			continue
		}
		at := key.Value
		if path != "" {
			at = path + "." + key.Value
		}
		if first, twice := seen[key.Value]; twice {
			r.add(key.Line, at, fmt.Sprintf("is already given in line %d; remove one", first))
			continue
		}
		seen[key.Value], r.lines[at] = key.Line, key.Line
		each(at, key, val)
	}
}

// unknown notes a field that nobody reads.
func (r *reader) unknown(at string, key *yaml.Node, fields map[string]value) {
	known := make([]string, 0, len(fields))
	for name := range fields {
		known = append(known, name)
	}
	slices.Sort(known)
	r.add(key.Line, at, "unknown field; known here: "+strings.Join(known, ", "))
}

// list is a sequence; each reads item i.
func list(each func(r *reader, i int, path string, n *yaml.Node)) value {
	return func(r *reader, path string, n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			r.fail(path, "want a list ([a, b] or lines with -), got %s", kindOf(n))
			return
		}
		for i, item := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			r.lines[at] = item.Line
			r.read(at, item, func(r *reader, at string, n *yaml.Node) { each(r, i, at, n) })
		}
	}
}

// texts is a list of strings.
func texts(to *[]string) value {
	return func(r *reader, path string, n *yaml.Node) {
		*to = []string{}
		list(func(r *reader, _ int, at string, n *yaml.Node) {
			var s string
			text(&s)(r, at, n)
			*to = append(*to, s)
		})(r, path, n)
	}
}

// text is a string that YAML does not take for something else.
func text(to *string) value {
	return func(r *reader, path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
			r.fail(path, "want text, got %s%s", kindOf(n), quoteHint(n))
			return
		}
		*to = n.Value
	}
}

// opaque is a scalar taken as it is written: a digest may look like a number.
func opaque(to *string) value {
	return func(r *reader, path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode {
			r.fail(path, "want text, got %s", kindOf(n))
			return
		}
		*to = n.Value
	}
}

// truth is true or false.
func truth(to *bool) value {
	return func(r *reader, path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			r.fail(path, "want true or false, got %s", kindOf(n))
			return
		}
		*to = strings.EqualFold(n.Value, "true")
	}
}

// whole is a decimal whole number of lo … hi.
func whole(to *int, lo, hi int64) value {
	return func(r *reader, path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || (n.ShortTag() != "!!int" && n.ShortTag() != "!!float") {
			r.fail(path, "want a whole number, got %s", kindOf(n))
			return
		}
		v, err := strconv.ParseInt(n.Value, 10, 64)
		switch {
		case err != nil:
			r.fail(path, "want a whole number in plain decimal digits, %d … %d", lo, hi)
		case v < 0 && lo >= 0:
			r.fail(path, "must not be negative; want %d … %d", lo, hi)
		case v < lo || v > hi:
			r.fail(path, "out of range; want %d … %d", lo, hi)
		default:
			*to = int(v)
		}
	}
}

// amount is a finite number that is not negative.
func amount(to *float64, most float64) value {
	return func(r *reader, path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || (n.ShortTag() != "!!float" && n.ShortTag() != "!!int") {
			r.fail(path, "want a number, got %s", kindOf(n))
			return
		}
		v, err := strconv.ParseFloat(n.Value, 64)
		switch {
		case err != nil || math.IsNaN(v) || strings.ContainsAny(n.Value, "xX_"):
			r.fail(path, "want a plain decimal number, 0 … %g", most)
		case v < 0:
			r.fail(path, "must not be negative; want 0 … %g", most)
		case v > most:
			r.fail(path, "out of range; want 0 … %g", most)
		default:
			*to = v
		}
	}
}

// minRate keeps what is divided by a rate finite.
const minRate = 0.01

// rate is a finite number above 0, minRate at least.
func rate(to *float64, most float64) value {
	return func(r *reader, path string, n *yaml.Node) {
		v := *to
		amount(&v, most)(r, path, n)
		switch {
		case !r.sound(path):
		case v < minRate:
			r.fail(path, "must be above 0; want %g … %g, or leave it out where it is not known", minRate, most)
		default:
			*to = v
		}
	}
}

// span is a duration of 0 … most with its unit.
func span(to *time.Duration, most time.Duration) value {
	return func(r *reader, path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode {
			r.fail(path, `want a duration such as "5s", got %s`, kindOf(n))
			return
		}
		d, err := time.ParseDuration(n.Value)
		switch {
		case err != nil:
			r.fail(path, `want a duration with its unit, such as "5s" or "1500ms"`)
		case d < 0:
			r.fail(path, "must not be negative; want 0s … %s", most)
		case d > most:
			r.fail(path, "out of range; want 0s … %s", most)
		default:
			*to = d
		}
	}
}

// units of sizes; the longest suffix comes first.
var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1}}

// size is a number of bytes, with or without a unit.
func size(to *int64, lo, hi int64) value {
	return func(r *reader, path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode {
			r.fail(path, "want a size such as 4MiB, got %s", kindOf(n))
			return
		}
		v, ok := parseSize(n.Value)
		switch {
		case ok && v < 0:
			r.fail(path, "must not be negative; want %d … %d bytes", lo, hi)
		case !ok:
			r.fail(path, "want bytes or a size such as 16KiB or 4MiB")
		case v < lo || v > hi:
			r.fail(path, "out of range; want %d … %d bytes", lo, hi)
		default:
			*to = v
		}
	}
}

func parseSize(s string) (int64, bool) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseInt(strings.TrimRight(digits, " "), 10, 64)
		if err != nil || v < math.MinInt64/u.bytes || v > math.MaxInt64/u.bytes {
			return 0, false
		}
		return v * u.bytes, true
	}
	return 0, false
}

// kindOf names what a node is, never what it says.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!str":
		return "text"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	}
	return "a value with a tag"
}

func quoteHint(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Style == 0 {
		return "; put it in quotes"
	}
	return ""
}

// safeName tells whether s may be a name: short, and fit for a label, a log
// line and a Redis key.
func safeName(s string) bool {
	return len(s) > 0 && len(s) <= 64 && only(s, "._-")
}

// only tells whether s is letters, digits and the marks given.
func only(s, marks string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte(marks, c) >= 0:
		default:
			return false
		}
	}
	return true
}
