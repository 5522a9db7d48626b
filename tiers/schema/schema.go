// Package schema checks a draft against the client's own JSON Schemas: the arguments of tool calls, and
// answers with a response_format. Start at [CheckCalls] and [CheckFormat].
//
// Schemas come from clients and are untrusted: nothing is loaded from outside, and every check has a budget of steps. A
// schema that takes more, or has keywords that are not known here, gives [ReasonUnusable]: the draft is rejected and the
// target answers.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Why a draft does not fit the request.
const (
	ReasonInvalid   = "invalid_json"    // it is not JSON
	ReasonMismatch  = "schema_mismatch" // it is JSON, but does not fit the schema
	ReasonUnusable  = "schema_unusable" // the schema cannot be checked, or that takes too long
	ReasonNoCall    = "call_missing"    // a call is required, and there is none
	ReasonUnknown   = "call_unknown"    // a call of a tool that is not offered, or not the required one
	ReasonArguments = "call_arguments"  // a call's arguments are not a JSON object, or do not fit the tool's schema
)

// Bounds of a schema and of a value that is checked.
const (
	maxText   = 128 << 10 // bytes of a schema
	maxAnswer = 1 << 20   // bytes of a value
	maxDepth  = 128       // levels of either

	// Arithmetic is exact, and 1e999999 has a million digits.
	maxDigits   = 64
	maxExponent = 400
)

var (
	errNotJSON = errors.New("not JSON")
	errTooBig  = errors.New("too big")
)

// decode reads one JSON text of at most so many bytes, numbers as they are written.
func decode(text []byte, most int) (v any, err error) {
	if len(text) > most {
		return nil, fmt.Errorf("%d bytes: %w", len(text), errTooBig)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotJSON, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: more than one value", errNotJSON)
	}
	return v, withinBounds(v, 0)
}

// withinBounds returns which bound a value exceeds that is nested so deep.
func withinBounds(v any, depth int) error {
	if depth > maxDepth {
		return errTooBig
	}
	switch v := v.(type) {
	case json.Number:
		if !exact(string(v)) {
			return fmt.Errorf("a number of %d digits: %w", len(v), errTooBig)
		}
	case []any:
		for _, item := range v {
			if err := withinBounds(item, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, member := range v {
			if err := withinBounds(member, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// exact reports whether a number is short enough for exact arithmetic.
func exact(number string) bool {
	at := strings.IndexAny(number, "eE")
	if len(number) > maxDigits || at < 0 {
		return len(number) <= maxDigits
	}
	power, err := strconv.Atoi(number[at+1:])
	return err == nil && -maxExponent <= power && power <= maxExponent
}

// checkSchema checks that a text is JSON that fits a schema: "", [ReasonInvalid], [ReasonMismatch] or [ReasonUnusable].
func checkSchema(text, schema []byte) (reason string) {
	v, err := decode(text, maxAnswer)
	switch {
	case errors.Is(err, errNotJSON):
		return ReasonInvalid
	case err != nil:
		return ReasonUnusable
	}
	left := maxSteps
	return check(schema, v, &left)
}
