// Package yamlfile reads YAML files that people write. It is strict: unknown fields, duplicates, wrong
// types, anchors and aliases are mistakes. It goes on after a mistake, so that [File.Err] tells all of
// them at once, one per line, as "FILE:LINE: FIELD: what is wrong; what is wanted". Only names of fields
// are repeated in it, never a value, which may be a secret.
package yamlfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxProblems is how many lines of errors one file prints at most.
const MaxProblems = 50

const maxDepth = 20 // of nested values

// Options say what a file is.
type Options struct {
	Name     string // in errors
	Needs    string // what it must hold at least, for the error of an empty file
	MaxBytes int
}

// File is a file while it is read. It remembers the line of every field, for checks that come after the
// reading.
type File struct {
	name     string
	lines    map[string]int  // of every field that was met, by its path
	bad      map[string]bool // fields with a mistake of their own
	problems []problem
}

// problem is one mistake in the file.
type problem struct {
	line int // from 1
	text string
}

// ReadFile returns the content of a file, and of a larger one maxBytes+1 bytes, which [Open] refuses.
func ReadFile(path string, maxBytes int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, int64(maxBytes)+1))
}

// Open begins to read the one document in data. Without one, ok is false and [File.Err] says why.
func Open(o Options, data []byte) (f *File, root Value, ok bool) {
	f = &File{name: o.Name, lines: map[string]int{}, bad: map[string]bool{}}
	n := f.document(o, data)
	if n == nil || !f.shallow(n, 0) {
		return f, root, false
	}
	f.lines[""] = n.Line
	return f, f.value("", n), true
}

// document returns the root of the one document in data, or nil.
func (f *File) document(o Options, data []byte) *yaml.Node {
	if len(data) > o.MaxBytes {
		f.add(1, "", fmt.Sprintf("the file is larger than %d bytes", o.MaxBytes))
		return nil
	}
	var doc, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	err := d.Decode(&doc)
	if errors.Is(err, io.EOF) || (err == nil && len(doc.Content) == 1 && empty(doc.Content[0])) {
		f.add(1, "", "the file is empty; it needs at least "+o.Needs)
		return nil
	}
	if err == nil {
		err = d.Decode(&second)
	}
	switch {
	case errors.Is(err, io.EOF):
		return doc.Content[0]
	case err != nil:
		f.add(syntax(err, data))
	default:
		f.add(second.Line, "", "a second document begins here; the file must be one document, so remove the --- between them")
	}
	return nil
}

func empty(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// shallow refuses a file that is nested too deep. Nothing else of it is read then.
func (f *File) shallow(n *yaml.Node, depth int) bool {
	if depth > maxDepth {
		f.add(n.Line, "", fmt.Sprintf("nested more than %d deep", maxDepth))
		return false
	}
	for _, c := range n.Content {
		if !f.shallow(c, depth+1) {
			return false
		}
	}
	return true
}

// position is how the YAML library begins an error that has one.
var position = regexp.MustCompile(`^line (\d+): `)

// anchor is how the YAML library names an alias that stands for nothing.
var anchor = regexp.MustCompile(`unknown anchor '(.*)' referenced`)

// syntax tells what is not YAML. A value wrongly taken for an alias is not
// repeated: passwords may begin with an asterisk.
func syntax(err error, data []byte) (line int, path, text string) {
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := position.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	if line == 0 {
		line = lineOf(text, data)
	}
	if strings.Contains(text, "anchor") {
		text = "a value that begins with * or & stands for an anchor; put it in quotes"
	}
	return line, "", "not YAML (here or in the line before): " + strings.ReplaceAll(text, "\n", " ")
}

// lineOf finds the line of an error that tells none: the library tells neither
// where an alias stands nor which byte is no text, and leaves out line 1.
func lineOf(text string, data []byte) int {
	at := bytes.IndexFunc(data, func(c rune) bool { return c == utf8.RuneError || (c < ' ' && !strings.ContainsRune("\t\r\n", c)) })
	switch m := anchor.FindStringSubmatch(text); {
	case m != nil:
		at = bytes.Index(data, []byte("*"+m[1]))
	case !strings.Contains(text, "UTF-8") && !strings.Contains(text, "control characters"):
		return 1
	}
	return 1 + bytes.Count(data[:max(at, 0)], []byte("\n"))
}

// add notes a mistake of field path, "" when it belongs to none.
func (f *File) add(line int, path, text string) {
	if path != "" {
		f.bad[path] = true
		text = path + ": " + text
	}
	f.problems = append(f.problems, problem{max(line, 1), text})
}

// Fail notes a mistake at field path; the line is that of the field, or of the
// nearest field around it.
func (f *File) Fail(path, format string, args ...any) {
	line, at := 1, path
	for {
		if l, ok := f.lines[at]; ok {
			line = l
			break
		}
		if at == "" {
			break
		}
		at = at[:max(strings.LastIndexAny(at, ".["), 0)]
	}
	f.add(line, path, fmt.Sprintf(format, args...))
}

// Has tells whether the file gives field path, well or badly.
func (f *File) Has(path string) bool {
	_, ok := f.lines[path]
	return ok
}

// Sound tells whether nothing was found wrong with path itself so far.
func (f *File) Sound(path string) bool { return !f.bad[path] }

// Err joins the mistakes, one per line, in the order of the file; nil if there are none.
func (f *File) Err() error {
	if len(f.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(f.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	var lines []string
	for i, p := range f.problems {
		if i == MaxProblems {
			lines = append(lines, fmt.Sprintf("%s: and %d more", f.name, len(f.problems)-MaxProblems))
			break
		}
		lines = append(lines, fmt.Sprintf("%s:%d: %s", f.name, p.line, p.text))
	}
	return errors.New(strings.Join(lines, "\n"))
}
