package yamlfile

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// position is a place in a file; line and column begin at 1.
type position struct{ line, column int }

// Kind is what a value is, in the words of the messages.
type Kind string

// The kinds of scalars that [Value.Scalar] can be asked for.
const (
	KindText   Kind = "text"
	KindNumber Kind = "a number"
	KindTruth  Kind = "true or false"
)

const (
	fields Kind = "fields"
	list   Kind = "a list"
	null   Kind = "nothing"
	date   Kind = "a date"
	other  Kind = "something else"
)

// scalarKinds are the kinds of scalars by their tags in YAML.
var scalarKinds = map[string]Kind{
	"!!str": KindText, "!!int": KindNumber, "!!float": KindNumber, "!!bool": KindTruth, "!!null": null, "!!timestamp": date,
}

// kindOf is the kind of a node.
func kindOf(n *yaml.Node) Kind {
	switch n.Kind {
	case yaml.MappingNode:
		return fields
	case yaml.SequenceNode:
		return list
	case yaml.ScalarNode:
		if k, known := scalarKinds[n.ShortTag()]; known {
			return k
		}
	}
	return other
}

func isScalar(n *yaml.Node) bool { return kindOf(n) != fields && kindOf(n) != list }

// anchored tells whether a node has an anchor, or is an alias. What an alias stands for is never read, so that no file
// becomes larger.
func anchored(n *yaml.Node) bool { return n.Kind == yaml.AliasNode || n.Anchor != "" }

func placeOf(n *yaml.Node) position { return position{n.Line, n.Column} }

// mistake is what is no YAML, or YAML that is not read.
type mistake struct {
	position
	text string
}

// parse returns the root of the one document of a file; nil without a document.
func parse(data []byte) (*yaml.Node, *mistake) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := d.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		err = d.Decode(&second)
	}
	switch {
	case errors.Is(err, io.EOF):
		return doc.Content[0], nil
	case err != nil:
		return nil, syntax(err, data)
	}
	const text = "a second document begins here; the file must be one document, so remove the --- between them"
	return nil, &mistake{position{second.Line, second.Column}, text}
}

// lineOfError is how the YAML library begins an error that has a line.
var lineOfError = regexp.MustCompile(`^line (\d+): `)

// anchor is how the YAML library names an alias that stands for nothing.
var anchor = regexp.MustCompile(`unknown anchor '(.*)' referenced`)

// syntax tells what is not YAML; the library tells no column. A value wrongly taken for an alias is not repeated:
// passwords may begin with an asterisk.
func syntax(err error, data []byte) *mistake {
	m := &mistake{position: position{column: 1}}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if found := lineOfError.FindStringSubmatch(text); found != nil {
		m.line, _ = strconv.Atoi(found[1])
		text = text[len(found[0]):]
	}
	if m.line == 0 {
		m.line = lineOf(text, data)
	}
	if strings.Contains(text, "anchor") {
		text = "a value that begins with * or & stands for an anchor; put it in quotes"
	}
	m.text = "not YAML (here or in the line before): " + strings.ReplaceAll(text, "\n", " ")
	return m
}

// lineOf finds the line of an error that tells none: the library tells neither where an alias stands nor which byte is
// no text, and leaves out line 1.
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
