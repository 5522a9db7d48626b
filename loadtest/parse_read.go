package loadtest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of a scenario file.
const (
	maxFile     = 256 << 10
	maxDepth    = 20
	maxProblems = 50
)

// sheet is a file that is being read, and what is wrong with it so far.
type sheet struct {
	file     string
	problems []problem
}

type problem struct {
	line int
	text string
}

// spot is one value of a sheet and where it stands. A spot without a node is a
// field that is not given: reading it changes nothing.
type spot struct {
	*sheet
	node *yaml.Node
	path string
	line int // of the field's name
}

// block is a mapping whose fields are asked for one by one; done tells of those
// that nobody asked for.
type block struct {
	spot
	entries map[string]spot
	order   []string // as they stand in the file
	known   []string // as they were asked for
}

// open reads the one document of a file. It fails where nothing sensible can be
// said of the rest.
func (s *sheet) open(data []byte) (root spot, ok bool) {
	if len(data) > maxFile {
		s.note(1, "", "the file is larger than %d KiB", maxFile>>10)
		return root, false
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		s.note(1, "", "the file is empty; want fields such as duration, arrivals, prompts, target")
		return root, false
	} else if err != nil {
		s.noteSyntax(err)
		return root, false
	}
	if err := dec.Decode(&second); err == nil {
		s.note(second.Line, "", "a second document begins; want one scenario per file")
	} else if !errors.Is(err, io.EOF) {
		s.noteSyntax(err)
		return root, false
	}
	root = spot{sheet: s, node: doc.Content[0], line: doc.Content[0].Line}
	return root, s.plain(root.node, 0)
}

var syntaxLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(?s:(.*))$`)

// noteSyntax tells a mistake that the YAML parser found.
func (s *sheet) noteSyntax(err error) {
	m := syntaxLine.FindStringSubmatch(err.Error())
	line, convErr := strconv.Atoi(m[1])
	if convErr != nil {
		line = 1
	}
	s.note(line, "", "no YAML: %s", strings.ReplaceAll(m[2], "\n", " "))
}

// plain refuses what a scenario has no use for: anchors, aliases, tags, and
// nesting so deep that it is no scenario (then nothing else is read).
func (s *sheet) plain(n *yaml.Node, depth int) bool {
	if depth > maxDepth {
		s.note(n.Line, "", "nested more than %d deep", maxDepth)
		return false
	}
	switch {
	case n.Kind == yaml.AliasNode:
		s.note(n.Line, "", "aliases (*name) are not read; write the value out")
	case n.Anchor != "":
		s.note(n.Line, "", "anchors (&name) are not read; remove it")
	case n.Style&yaml.TaggedStyle != 0:
		s.note(n.Line, "", "tags (!name) are not read; remove it")
	}
	for _, c := range n.Content {
		if !s.plain(c, depth+1) {
			return false
		}
	}
	return true
}

// note adds a problem.
func (s *sheet) note(line int, path, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if path != "" {
		text = path + ": " + text
	}
	s.problems = append(s.problems, problem{max(line, 1), text})
}

// err joins the problems in the order of their lines.
func (s *sheet) err() error {
	if len(s.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(s.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	var b strings.Builder
	for i, p := range s.problems {
		if i == maxProblems {
			fmt.Fprintf(&b, "\n%s: and %d more", s.file, len(s.problems)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d: %s", s.file, p.line, p.text)
	}
	return errors.New(b.String())
}

// given tells whether the field is in the file.
func (p spot) given() bool { return p.node != nil }

// fail notes what is wrong with this value.
func (p spot) fail(format string, args ...any) { p.note(p.line, p.path, format, args...) }

// fields opens a mapping. It always returns a block; that of something else is
// without fields and misses none.
func (p spot) fields() *block {
	b := &block{spot: p}
	if !p.given() || p.node.Kind == yaml.AliasNode {
		return b
	}
	if p.node.Kind != yaml.MappingNode {
		p.fail("want fields (name: value), got %s", kindOf(p.node))
		return b
	}
	b.entries = map[string]spot{}
	for i := 0; i+1 < len(p.node.Content); i += 2 {
		key, val := p.node.Content[i], p.node.Content[i+1]
		name := key.Value
		if key.Kind != yaml.ScalarNode || !fieldName.MatchString(name) {
			p.note(key.Line, p.path, "want the name of a field here (letters, digits, . _ -)")
			continue
		}
		if first, twice := b.entries[name]; twice {
			p.note(key.Line, join(p.path, name), "is already given in line %d; remove one", first.line)
			continue
		}
		b.entries[name] = spot{p.sheet, val, join(p.path, name), key.Line}
		b.order = append(b.order, name)
	}
	return b
}

var fieldName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// at returns a field that may be given.
func (b *block) at(name string) spot {
	if !slices.Contains(b.known, name) {
		b.known = append(b.known, name)
	}
	return b.entries[name]
}

// need returns a field that must be given.
func (b *block) need(name, want string) spot {
	p := b.at(name)
	if b.entries != nil && !p.given() {
		b.note(b.line, join(b.path, name), "missing; want %s", want)
	}
	return p
}

// one returns which of the names is given, when exactly one must be.
func (b *block) one(names ...string) (name string, ok bool) {
	for _, n := range names {
		p := b.at(n)
		switch {
		case !p.given():
		case ok:
			p.fail("contradicts %s in line %d; want exactly one of %s", name, b.entries[name].line, strings.Join(names, ", "))
		default:
			name, ok = n, true
		}
	}
	if !ok && b.entries != nil {
		b.fail("says nothing; want exactly one of %s", strings.Join(names, ", "))
	}
	return name, ok
}

// done notes the fields that nobody asked for.
func (b *block) done() {
	for _, name := range b.order {
		if !slices.Contains(b.known, name) {
			b.entries[name].fail("unknown field; known here: %s", strings.Join(b.known, ", "))
		}
	}
}

// items reads the members of a list of 1 … most.
func (p spot) items(most int, each func(i int, item spot)) {
	if !p.given() || p.node.Kind == yaml.AliasNode {
		return
	}
	if p.node.Kind != yaml.SequenceNode {
		p.fail("want a list ([a, b] or lines with -), got %s", kindOf(p.node))
		return
	}
	if n := len(p.node.Content); n == 0 || n > most {
		p.fail("has %d entries; want 1 … %d", n, most)
		return
	}
	for i, n := range p.node.Content {
		each(i, spot{p.sheet, n, fmt.Sprintf("%s[%d]", p.path, i), n.Line})
	}
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
	case "!!null":
		return "nothing"
	case "!!str":
		return "text"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	}
	return "something else"
}
