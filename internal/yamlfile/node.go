package yamlfile

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
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
	other  Kind = "something else"
)

// node is one value of a file, without its comments.
type node struct {
	position
	kind     Kind
	text     string  // of a scalar, as it is written, without quotes
	plain    bool    // a scalar without quotes
	content  []*node // of a list; of fields keys and values in turn
	anchored bool    // it has an anchor, or is an alias
	tagged   bool
}

// isScalar tells whether the node is neither fields nor a list.
func (n *node) isScalar() bool { return n.kind != fields && n.kind != list && n.kind != other }

// mistake is what is no YAML, or YAML that is not read.
type mistake struct {
	position
	text string
}

// parse returns the documents of a file; one without anything in it is nil. at says where each begins.
func parse(data []byte) (docs []*node, at []position, m *mistake) {
	where := position{1, 1}
	defer func() { // the parser is not made for what is far from YAML
		if recover() != nil {
			docs, m = nil, &mistake{where, "not YAML: the parser gave up"}
		}
	}()
	src := strings.TrimPrefix(string(data), "\ufeff")
	if m := unprintable(src); m != nil {
		return nil, nil, m
	}
	tokens := lexer.Tokenize(src)
	if m := bounded(tokens); m != nil {
		return nil, nil, m
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, nil, syntax(err)
	}
	for _, d := range file.Docs {
		var doc *node
		if d.Body != nil {
			where = positionOf(d.Body)
			doc = convert(d.Body)
		}
		if d.Start != nil && d.Start.Position != nil {
			where = position{d.Start.Position.Line, d.Start.Position.Column}
		}
		docs, at = append(docs, doc), append(at, where)
	}
	return docs, at, nil
}

// unprintable finds what cannot be in a text file.
func unprintable(src string) *mistake {
	for i, c := range src {
		_, size := utf8.DecodeRuneInString(src[i:])
		if (c == utf8.RuneError && size == 1) || (c < ' ' && c != '\t' && c != '\r' && c != '\n') {
			before := src[:i]
			line := before[strings.LastIndexByte(before, '\n')+1:]
			at := position{1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(line)}
			return &mistake{at, "not YAML: a control character, or not UTF-8"}
		}
	}
	return nil
}

// bounded refuses what is nested too deep, or has too many fields side by side, before the parser goes down
// into it: for each of these it calls itself. Blocks cannot become deep without that many signs in one line,
// or that much indentation.
func bounded(tokens token.Tokens) *mistake {
	flows, line, entries, marks := 0, 0, 0, 0
	lines := make([]int, maxIndent+2) // by the column in which they begin: those that may be fields of one block
	for i, t := range tokens {
		at := position{t.Position.Line, t.Position.Column}
		if t.Position.IndentNum > maxIndent {
			return &mistake{at, fmt.Sprintf("nested more than %d deep", maxDepth)}
		}
		if at.line != line && flows == 0 && at.column < len(lines) {
			clear(lines[at.column+1:])
			if t.Type != token.SequenceEntryType || (i > 0 && tokens[i-1].Type == t.Type) { // a field, or an empty item
				lines[at.column]++
			}
			if lines[at.column] > maxFields {
				return &mistake{at, fmt.Sprintf("more than %d fields or empty items side by side", maxFields)}
			}
		}
		if at.line != line {
			line, entries = at.line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flows++
		case token.SequenceEndType, token.MappingEndType:
			flows = max(flows-1, 0)
		case token.SequenceEntryType, token.MappingKeyType:
			entries++
		case token.AnchorType, token.AliasType, token.TagType:
			marks++
		}
		switch {
		case marks > maxDepth:
			return &mistake{at, "anchors, aliases and tags (!name) are not read; write the values out"}
		case flows > maxDepth || entries > maxDepth:
			return &mistake{at, fmt.Sprintf("nested more than %d deep", maxDepth)}
		}
	}
	return nil
}

// repeated is where the parser repeats a character of a value.
var repeated = regexp.MustCompile(`((?:escape|tag) character) '.*'$`)

// syntax tells what is not YAML. What the parser repeats of the file is left out: it may be a secret.
func syntax(err error) *mistake {
	m := &mistake{position{1, 1}, "not YAML (here or in the line before)"}
	var e yaml.Error
	if !errors.As(err, &e) {
		return m
	}
	if t := e.GetToken(); t != nil && t.Position != nil {
		m.position = position{t.Position.Line, t.Position.Column}
		if t.Type == token.AliasType || t.Type == token.AnchorType {
			m.text += ": a value that begins with * or & stands for an anchor; put it in quotes"
			return m
		}
	}
	if what := e.GetMessage(); !strings.Contains(what, `"`) {
		m.text += ": " + strings.ReplaceAll(repeated.ReplaceAllString(what, "$1"), "\t", "tab")
	}
	return m
}

// positionOf is where a node begins.
func positionOf(n ast.Node) position {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key // and not its colon
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, t.Position.Column}
}

// decimal is a number in YAML. The parser takes 1e6, and what is larger than 64 bits, for text.
var decimal = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// convert makes a node of one of the parser.
func convert(from ast.Node) *node {
	n := &node{position: positionOf(from), kind: other}
	switch x := from.(type) {
	case *ast.MappingNode:
		n.kind = fields
		for _, v := range x.Values {
			n.content = append(n.content, convert(v.Key), convert(v.Value))
		}
	case *ast.MappingValueNode:
		n.kind, n.content = fields, []*node{convert(x.Key), convert(x.Value)}
	case *ast.SequenceNode:
		n.kind = list
		for _, v := range x.Values {
			n.content = append(n.content, convert(v))
		}
	case *ast.AnchorNode:
		n = convert(x.Value)
		n.anchored = true
	case *ast.AliasNode:
		n.anchored = true
	case *ast.TagNode:
		n = convert(x.Value)
		n.tagged = true
	case *ast.MappingKeyNode:
		n = convert(x.Value)
	case *ast.LiteralNode:
		n.kind, n.text = KindText, x.Value.Value
	case *ast.StringNode:
		n.kind, n.text, n.plain = KindText, x.Value, x.Token.Type == token.StringType
		if n.plain && decimal.MatchString(n.text) {
			n.kind = KindNumber
		}
	case *ast.BoolNode:
		n.scalar(KindTruth, x.Token)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.scalar(KindNumber, x.GetToken())
	case *ast.NullNode:
		n.scalar(null, x.Token)
	}
	return n
}

// scalar makes the node a scalar that is written without quotes.
func (n *node) scalar(k Kind, t *token.Token) { n.kind, n.text, n.plain = k, t.Value, true }
