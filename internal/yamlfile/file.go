// Package yamlfile reads YAML files that people write. It is strict: unknown fields, duplicates, wrong
// types, anchors and aliases are mistakes. It goes on after a mistake, so that [File.Err] tells all of
// them at once, one per line, as "FILE:LINE:COLUMN: FIELD: what is wrong; what is wanted". Only names of fields
// are repeated in it, never a value, which may be a secret.
package yamlfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxProblems is how many lines of errors one file prints at most.
const MaxProblems = 50

// Options say what a file is.
type Options struct {
	Name     string // in errors
	Needs    string // what it must hold at least, for the error of an empty file
	MaxBytes int
	Forms    map[string]Form // of texts, by the names in form tags
}

// File is a file while it is read. It remembers the place of every field, for checks that come after the
// reading.
type File struct {
	name     string
	forms    map[string]Form
	places   map[string]position // of every field that was met, by its path
	bad      map[string]bool     // fields with a mistake of their own
	problems []mistake
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
	f = &File{name: o.Name, forms: o.Forms, places: map[string]position{}, bad: map[string]bool{}}
	n := f.document(o, data)
	if n == nil {
		return f, root, false
	}
	f.places[""] = placeOf(n)
	return f, f.value("", n), true
}

// document returns the root of the one document in data, or nil.
func (f *File) document(o Options, data []byte) *yaml.Node {
	start := position{1, 1}
	if len(data) > o.MaxBytes {
		f.add(start, "", fmt.Sprintf("the file is larger than %d bytes", o.MaxBytes))
		return nil
	}
	root, wrong := parse(data)
	switch {
	case wrong != nil:
		f.problems = append(f.problems, *wrong)
	case root == nil || kindOf(root) == null:
		f.add(start, "", "the file is empty; it needs at least "+o.Needs)
	default:
		return root
	}
	return nil
}

// add notes a mistake of field path, "" when it belongs to none.
func (f *File) add(at position, path, text string) {
	if path != "" {
		f.bad[path] = true
		text = path + ": " + text
	}
	f.problems = append(f.problems, mistake{at, text})
}

// Fail notes a mistake at field path; the place is that of the field, or of the
// nearest field around it.
func (f *File) Fail(path, format string, args ...any) {
	place, at := position{1, 1}, path
	for {
		if p, ok := f.places[at]; ok {
			place = p
			break
		}
		if at == "" {
			break
		}
		at = at[:max(strings.LastIndexAny(at, ".["), 0)]
	}
	f.add(place, path, fmt.Sprintf(format, args...))
}

// Has tells whether the file gives field path, well or badly.
func (f *File) Has(path string) bool {
	_, ok := f.places[path]
	return ok
}

// Sound tells whether nothing was found wrong with path itself so far.
func (f *File) Sound(path string) bool { return !f.bad[path] }

// Err joins the mistakes, one per line, in the order of the file; nil if there are none.
func (f *File) Err() error {
	if len(f.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(f.problems, func(a, b mistake) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	var lines []string
	for i, p := range f.problems {
		if i == MaxProblems {
			lines = append(lines, fmt.Sprintf("%s: and %d more", f.name, len(f.problems)-MaxProblems))
			break
		}
		lines = append(lines, fmt.Sprintf("%s:%d:%d: %s", f.name, p.line, p.column, p.text))
	}
	return errors.New(strings.Join(lines, "\n"))
}
