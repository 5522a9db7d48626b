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
	"io"
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
)

// decode reads one JSON text of at most so many bytes, numbers as they are written: "", [ReasonInvalid] or [ReasonUnusable].
func decode(text []byte, most int) (v any, reason string) {
	if len(text) > most {
		return nil, ReasonUnusable
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil, ReasonInvalid
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, ReasonInvalid
	}
	return v, ""
}

// checkSchema checks that a text is JSON that fits a schema: "", [ReasonInvalid], [ReasonMismatch] or [ReasonUnusable].
func checkSchema(text, schema []byte) (reason string) {
	v, reason := decode(text, maxAnswer)
	if reason != "" {
		return reason
	}
	left := maxSteps
	return check(schema, v, &left)
}
