// Package messages is the Messages API: its requests as chat completions, and chat completions as its answers.
// Start at [API].
package messages

import (
	"net/http"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// API is the Messages API.
type API struct {
	Counts bool // the requests are those of count_tokens, which need no max_tokens
}

var _ clientapi.API = API{}

// ErrorBody implements [clientapi.API].
func (API) ErrorBody(dst []byte, status int, e openai.ErrorBody, id string) []byte {
	dst = append(dst, `{"type":"error","error":{"type":"`+errorType(status)+`","message":`...)
	message := e.Message
	if e.Code == codeTooLong {
		message = tooLongMessage(message)
	} else if e.Param != "" && !strings.Contains(message, e.Param) { // the API has no member for it
		message += " (" + e.Param + ")"
	}
	dst = openai.AppendQuote(dst, message)
	if e.Code != "" {
		dst = openai.AppendQuote(append(dst, `,"code":`...), e.Code)
	}
	dst = openai.AppendQuote(append(dst, `},"request_id":`...), id)
	return append(dst, '}')
}

// codeTooLong is the code of a request that is longer than the model's context.
const codeTooLong = "context_length_exceeded"

// StatusOverloaded is the API's HTTP status of an error of type overloaded_error.
const StatusOverloaded = 529

// errorType is the API's type of an error with an HTTP status.
func errorType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable, StatusOverloaded:
		return "overloaded_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	}
	if status < http.StatusInternalServerError {
		return "invalid_request_error"
	}
	return "api_error"
}
