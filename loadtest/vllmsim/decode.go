package vllmsim

import (
	"errors"
	"fmt"
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
		return malformed("type_error", "body"+strings.ReplaceAll(string(se.JSONPointer), "/", "."), fmt.Sprintf("Input should be a valid %v", se.GoType))
	}
	at := "body.0"
	if se, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = fmt.Sprintf("body.%d", se.ByteOffset)
	}
	return malformed("json_invalid", at, "JSON decode error")
}
