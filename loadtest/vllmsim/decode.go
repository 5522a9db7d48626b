package vllmsim

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// unmarshal reads JSON as vLLM's pydantic models do: the names of fields in this very case, and the last of two fields of one
// name counts.
func unmarshal(raw []byte, v any) error {
	return json.Unmarshal(raw, v, jsontext.AllowDuplicateNames(true))
}

// decode reads a body into v, with errors nearly as pydantic words them.
func decode(body []byte, v any) *apiError {
	err := unmarshal(body, v)
	if err == nil {
		return nil
	}
	if se, ok := errors.AsType[*json.SemanticError](err); ok {
		return wrongType(se)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return malformed("missing", "body", "Field required")
	}
	at := "body.0"
	if se, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = fmt.Sprintf("body.%d", se.ByteOffset)
	}
	return malformed("json_invalid", at, "JSON decode error")
}

// wrongType is a member of another type than the schema's, in pydantic's words.
func wrongType(e *json.SemanticError) *apiError {
	at := "body" + strings.ReplaceAll(string(e.JSONPointer), "/", ".")
	switch e.GoType.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		return notNumber("int", at, "an integer", e.JSONKind == '"')
	case reflect.Float64:
		return notNumber("float", at, "a number", e.JSONKind == '"')
	case reflect.Slice:
		return malformed("list_type", at, "Input should be a valid list")
	}
	if at == "body" {
		return malformed("model_attributes_type", at, "Input should be a valid dictionary or object to extract fields from")
	}
	return malformed("type_error", at, fmt.Sprintf("Input should be a valid %v", e.GoType))
}

// notNumber refuses what should be an integer or a number, with its article; text tells that it is a string.
func notNumber(kind, at, wanted string, text bool) *apiError {
	_, noun, _ := strings.Cut(wanted, " ")
	valid := "Input should be a valid " + noun
	if !text {
		return malformed(kind+"_type", at, valid)
	}
	return malformed(kind+"_parsing", at, valid+", unable to parse string as "+wanted)
}
