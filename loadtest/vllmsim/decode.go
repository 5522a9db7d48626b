package vllmsim

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// This file reads bodies as vLLM's pydantic models do: the names of fields in this very case, the last of two fields of
// one name, whole numbers also as 5.0 and "5"; and what does not fit is refused in pydantic's words.

// lax lets numbers come in the ways that pydantic's lax mode takes. Token ids are left out: there are many of them.
var lax = jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(jsonv2.UnmarshalFromFunc(laxInt[int]),
	jsonv2.UnmarshalFromFunc(laxInt[int64]), jsonv2.UnmarshalFromFunc(laxFloat)))

// pyError is a value that pydantic refuses.
type pyError struct{ kind, message, input string }

// Error implements error.
func (e *pyError) Error() string { return e.message }

func laxInt[T int | int64](d *jsontext.Decoder, v *T) error {
	kind := d.PeekKind()
	if kind != '"' && kind != '0' {
		return errors.ErrUnsupported // and so the default says what is wrong
	}
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	text := string(raw)
	if kind == '"' {
		text = strings.TrimSpace(strings.Trim(text, `"`))
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		*v = T(n)
		return nil
	}
	switch f, err := strconv.ParseFloat(text, 64); {
	case err != nil && kind == '"':
		return &pyError{"int_parsing", "Input should be a valid integer, unable to parse string as an integer", pyString(raw)}
	case err != nil || f >= math.MaxInt64 || f <= math.MinInt64:
		return &pyError{"int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size", pyString(raw)}
	case f != math.Trunc(f):
		return &pyError{"int_from_float", "Input should be a valid integer, got a number with a fractional part", pyString(raw)}
	default:
		*v = T(f)
		return nil
	}
}

func laxFloat(d *jsontext.Decoder, v *float64) error {
	if d.PeekKind() != '"' {
		return errors.ErrUnsupported
	}
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	if *v, err = strconv.ParseFloat(strings.TrimSpace(strings.Trim(string(raw), `"`)), 64); err != nil {
		return &pyError{"float_parsing", "Input should be a valid number, unable to parse string as a number", pyString(raw)}
	}
	return nil
}

// pyString shows a number or a string as Python does.
func pyString(raw jsontext.Value) string { return strings.ReplaceAll(string(raw), `"`, "'") }

// unmarshal reads JSON with the names of fields in this very case: encoding/json takes any.
func unmarshal(raw []byte, v any) error {
	return jsonv2.Unmarshal(raw, v, jsontext.AllowDuplicateNames(true), lax)
}

// decode reads a body into v, with errors as pydantic words them.
func decode(body []byte, v any) *apiError {
	err := unmarshal(body, v)
	if err == nil {
		return nil
	}
	se, ok := errors.AsType[*jsonv2.SemanticError](err)
	if !ok {
		at := int64(0)
		if syn, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			at = syn.ByteOffset
		}
		return malformed(fmt.Sprintf("{'type': 'json_invalid', 'loc': ('body', %d), 'msg': 'JSON decode error', 'input': {}, 'ctx': {'error': 'Expecting value'}}", at))
	}
	if py, ok := errors.AsType[*pyError](err); ok {
		return malformed(fmt.Sprintf("{'type': '%s', 'loc': %s, 'msg': '%s', 'input': %s}", py.kind, pyLoc(se.JSONPointer), py.message, py.input))
	}
	kind, noun := pyKind(se)
	return malformed(fmt.Sprintf("{'type': '%s_type', 'loc': %s, 'msg': 'Input should be a valid %s'}", kind, pyLoc(se.JSONPointer), noun))
}

// pyLoc is where a value stands, as a tuple.
func pyLoc(p jsontext.Pointer) string {
	loc := "('body'"
	for token := range p.Tokens() {
		if _, err := strconv.Atoi(token); err != nil {
			token = "'" + token + "'"
		}
		loc += ", " + token
	}
	if p == "" {
		loc += ","
	}
	return loc + ")"
}

// pyKind names the Python type that was wanted, for the error's type and for its message.
func pyKind(se *jsonv2.SemanticError) (kind, noun string) {
	if se.GoType == nil {
		return "dict", "dictionary"
	}
	switch k := se.GoType.Kind().String(); {
	case strings.HasPrefix(k, "int"), strings.HasPrefix(k, "uint"):
		return "int", "integer"
	case strings.HasPrefix(k, "float"):
		return "float", "number"
	case k == "slice":
		return "list", "list"
	case k == "struct":
		return "dict", "dictionary"
	case k == "bool":
		return "bool", "boolean"
	default:
		return k, k
	}
}

func missing(field string) *apiError {
	return malformed(fmt.Sprintf("{'type': 'missing', 'loc': ('body', '%s'), 'msg': 'Field required'}", field))
}

// tooSmall is a number below its least value; loc is Python's, without the body.
func tooSmall(loc string, v, minimum int) *apiError {
	return malformed(fmt.Sprintf("{'type': 'greater_than_equal', 'loc': ('body', %s), 'msg': 'Input should be greater than or equal to %d', 'input': %d, 'ctx': {'ge': %d}}",
		loc, minimum, v, minimum))
}
