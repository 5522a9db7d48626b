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
	"slices"
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

// ToolCall is a tool call of a draft.
type ToolCall struct {
	Name      string
	Arguments []byte // as the model wrote them
}

// CheckCalls checks a draft's calls: "" or a reason. Each must name an offered tool, its arguments must be a
// JSON object that fits the tool's schema, and there must be calls if tool_choice demands them. tools is the
// request's array and choice its tool_choice, both as raw JSON; no choice is "auto", or "none" without tools.
// No calls are valid if none is demanded.
func CheckCalls(calls []ToolCall, tools, choice []byte) (reason string) {
	want, ok := readChoice(choice)
	switch {
	case !ok:
		return ReasonUnusable
	case len(calls) == 0 && want.some:
		return ReasonNoCall
	case len(calls) == 0:
		return ""
	case want.none:
		return ReasonUnknown
	}
	offered, ok := readTools(tools)
	if !ok {
		return ReasonUnusable
	}
	left := maxSteps
	for _, call := range calls {
		schema, ok := offered[call.Name]
		if !ok || want.only != nil && !slices.Contains(want.only, call.Name) {
			return ReasonUnknown
		}
		if reason := arguments(call.Arguments, schema, &left); reason != "" {
			return reason
		}
	}
	return ""
}

// arguments checks the arguments of one call. A tool without a schema takes any object.
func arguments(text, schema []byte, left *int) (reason string) {
	v, reason := decode(text, maxAnswer)
	if reason == ReasonUnusable {
		return reason
	}
	if _, object := v.(map[string]any); !object {
		return ReasonArguments
	}
	if len(schema) == 0 || string(schema) == "null" {
		return ""
	}
	*left -= len(schema) / 64 // it is read
	if reason = check(schema, v, left); reason == ReasonMismatch {
		return ReasonArguments
	}
	return reason
}

// readTools returns the schema of each offered tool.
func readTools(raw []byte) (schemas map[string]json.RawMessage, ok bool) {
	if len(raw) == 0 {
		return nil, true
	}
	var tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &tools) != nil {
		return nil, false
	}
	schemas = make(map[string]json.RawMessage, len(tools))
	for _, t := range tools {
		if t.Type != "" && t.Type != "function" {
			return nil, false // an unknown kind of tool
		}
		schemas[t.Function.Name] = t.Function.Parameters
	}
	return schemas, true
}

// choice is what a tool_choice demands.
type choice struct {
	none bool     // calls are forbidden
	some bool     // a call is required
	only []string // allowed tools; nil is any
}

// named is a tool as a tool_choice names it.
type named struct {
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

// readChoice parses a tool_choice: a word, one tool by name, or the allowed tools.
func readChoice(raw []byte) (c choice, ok bool) {
	var word string
	if len(raw) == 0 || string(raw) == "null" {
		return c, true
	}
	if json.Unmarshal(raw, &word) == nil {
		return choice{none: word == "none", some: word == "required"}, word == "none" || word == "required" || word == "auto"
	}
	var o struct {
		Type string `json:"type"`
		named
		Allowed struct {
			Mode  string  `json:"mode"`
			Tools []named `json:"tools"`
		} `json:"allowed_tools"`
	}
	if json.Unmarshal(raw, &o) != nil {
		return c, false
	}
	switch {
	case o.Type == "function" && o.Function.Name != "":
		return choice{some: true, only: []string{o.Function.Name}}, true
	case o.Type == "allowed_tools" && (o.Allowed.Mode == "auto" || o.Allowed.Mode == "required"):
		c = choice{some: o.Allowed.Mode == "required", only: []string{}}
		for _, t := range o.Allowed.Tools {
			c.only = append(c.only, t.Function.Name)
		}
		return c, true
	}
	return c, false
}

// CheckFormat checks a whole answer against the request's response_format, given as raw JSON: "" or a reason
// [ReasonInvalid], [ReasonMismatch] or [ReasonUnusable]. Formats other than text, json_object and json_schema cannot be checked:
// ReasonUnusable.
func CheckFormat(text, format []byte) (reason string) {
	if len(format) == 0 || string(format) == "null" {
		return ""
	}
	var f struct {
		Type   string `json:"type"`
		Schema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if json.Unmarshal(format, &f) != nil {
		return ReasonUnusable
	}
	switch {
	case f.Type == "text":
		return ""
	case f.Type == "json_schema" && len(f.Schema.Schema) > 0:
		return checkSchema(text, f.Schema.Schema)
	case f.Type != "json_object":
		return ReasonUnusable
	case !json.Valid(text):
		return ReasonInvalid
	}
	return ""
}
