package openai

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// RequestError says what is wrong with a request and where.
type RequestError struct {
	Status  int    // HTTP status
	Message string // for the client
	Param   string // the field, "" when the whole body is meant
	Code    string // OpenAI's error code
}

// Error implements error.
func (e *RequestError) Error() string { return e.Message }

func badField(param, code, format string, args ...any) *RequestError {
	return &RequestError{Status: http.StatusBadRequest, Param: param, Code: code, Message: fmt.Sprintf(format, args...)}
}

func wrongType(name, want string, got jsontext.Kind) *RequestError {
	return badField(name, "invalid_type", "%s must be %s, but is %s.", name, want, kindWord(got))
}

// syntaxError describes an error of the JSON text, with its byte offset and its location in the document.
func syntaxError(body []byte, err error) *RequestError {
	out := &RequestError{Status: http.StatusBadRequest, Code: "invalid_json"}
	var syn *jsontext.SyntacticError
	switch {
	case errors.As(err, &syn):
		where := string(syn.JSONPointer)
		if where == "" {
			where = "the top level"
		}
		out.Message = fmt.Sprintf("The request body is not valid JSON at byte %d (%s): %s.", syn.ByteOffset, clip(where, 100), clip(reason(syn.Err), 200))
		if errors.Is(syn.Err, jsontext.ErrDuplicateName) {
			out.Code = "duplicate_key"
			out.Param = clip(strings.TrimPrefix(string(syn.JSONPointer), "/"), 100)
		}
	case len(bytes.TrimSpace(body)) == 0:
		out.Message = "The request body is empty; a JSON object is needed."
	default:
		out.Message = fmt.Sprintf("The request body is not valid JSON at byte %d: %v.", len(body), err)
	}
	return out
}

func reason(err error) string {
	if err == nil {
		return "syntax error"
	}
	return err.Error()
}

// clip bounds external text in a message.
func clip(s string, maximum int) string {
	if len(s) > maximum {
		s = strings.ToValidUTF8(s[:maximum], "") + "…"
	}
	return s
}
