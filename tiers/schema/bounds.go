package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of a schema. The library's time grows with the square of a schema's size, and faster with references
// into its own middle; within these bounds it takes some tenths of a second at worst
// (TestHostileSchemasTakeNoTime).
const (
	maxText    = 128 << 10 // bytes
	maxValues  = 4096      // JSON values, names not counted
	maxDepth   = 48        // levels
	maxRefs    = 256       // references
	maxIDs     = 8         // subschemas with an identity of their own
	maxPattern = 512       // bytes of one regular expression
	maxSteps   = 1024      // instructions of one
	maxProgram = 16 << 10  // instructions of all; some are compiled twice
)

// Bounds of a value that is checked.
const (
	maxAnswer      = 1 << 20 // bytes
	maxAnswerDepth = 128
)

// Bounds of a number: arithmetic here is exact, and 1e999999 has a million digits.
const (
	maxDigits   = 64
	maxExponent = 400
)

var (
	errNotJSON = errors.New("not JSON")
	errTooBig  = errors.New("too big")
)

// decode reads one JSON text, numbers as they are written.
func decode(text []byte) (any, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotJSON, err)
	}
	return v, nil
}

// decodeValue reads a value to check.
func decodeValue(text []byte) (any, error) {
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("an answer of %d bytes: %w", len(text), errTooBig)
	}
	v, err := decode(text)
	if err != nil {
		return nil, err
	}
	c := documentSize{depth: maxAnswerDepth, values: maxAnswer}
	if err := c.take(v, 0); err != nil {
		return nil, err
	}
	return v, nil
}

// ofBounds returns which bound a schema exceeds.
func ofBounds(doc any) error {
	c := documentSize{depth: maxDepth, values: maxValues}
	if top, ok := doc.(map[string]any); ok {
		dialect, _ := top["$schema"].(string)
		c.old = strings.Contains(dialect, "draft-04")
	}
	err := c.take(doc, 0)
	switch {
	case err != nil:
		return err
	case c.refs > maxRefs:
		return fmt.Errorf("%d references: %w", c.refs, errTooBig)
	case c.ids > maxIDs:
		return fmt.Errorf("%d identities: %w", c.ids, errTooBig)
	}
	return nil
}

// documentSize counts the elements of a JSON value.
type documentSize struct {
	depth, values int  // maximum
	refs, ids     int  // counted
	old           bool // "id" is an identity
}

func (c *documentSize) take(v any, depth int) error {
	if c.values--; c.values < 0 || depth > c.depth {
		return errTooBig
	}
	switch v := v.(type) {
	case json.Number:
		if !exact(string(v)) {
			return fmt.Errorf("a number of %d digits: %w", len(v), errTooBig)
		}
	case []any:
		for _, item := range v {
			if err := c.take(item, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, member := range v {
			switch name {
			case "$ref":
				c.refs++
			case "id":
				if c.old {
					c.ids++
				}
			case "$id", "$anchor", "$dynamicAnchor", "$schema":
				if _, ok := member.(string); ok {
					c.ids++
				}
			}
			if err := c.take(member, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// exact reports whether a number is short enough for exact arithmetic.
func exact(number string) bool {
	if len(number) > maxDigits {
		return false
	}
	at := strings.IndexAny(number, "eE")
	if at < 0 {
		return true
	}
	power, err := strconv.Atoi(number[at+1:])
	return err == nil && -maxExponent <= power && power <= maxExponent
}

// patterns compiles the regular expressions of one schema. Go's have no lookaround or back-references, and
// take time linear in the text.
type patterns struct{ used int }

// pattern is a regular expression with its size.
type pattern struct {
	*regexp.Regexp
	steps int // instructions: a match runs at most this many for each byte
}

func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("a pattern of %d bytes: %w", len(text), errTooBig)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	n := len(program.Inst)
	if p.used += n; n > maxSteps || p.used > maxProgram {
		return nil, fmt.Errorf("a pattern of %d instructions: %w", n, errTooBig)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return pattern{re, n}, nil
}
