package vllmsim

import (
	"math"
	"net/http"
	"strconv"
	"strings"
)

// apiError is an error as a client sees it.
type apiError struct {
	status  int
	kind    string // the body's type
	message string
	param   string
	long    *overlong // what did not fit the context
}

// overlong is a request that is longer than the context, in tokens.
type overlong struct{ prompt, asked, limit int }

// Error implements error.
func (e *apiError) Error() string { return e.message }

const (
	kindBadRequest = "BadRequestError"
	kindSchema     = "Bad Request"
	kindInternal   = "InternalServerError"
)

var (
	errEngine = &apiError{status: http.StatusInternalServerError, kind: kindInternal, message: "Internal server error"}
	errDead   = &apiError{status: http.StatusInternalServerError, kind: kindInternal,
		message: "EngineCore encountered an issue. See stack trace (above) for the root cause."}
	errTextOnly = refused("the model is not a multimodal model")
	errBusy     = &apiError{status: http.StatusServiceUnavailable, kind: "Service Unavailable",
		message: "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."}
)

// invalid is a semantic refusal of one parameter (vLLM's VLLMValidationError). Some are told without their value: "".
func invalid(message, param, value string) *apiError {
	if value != "" {
		value = ", value=" + value
	}
	return &apiError{status: http.StatusBadRequest, kind: kindBadRequest, param: param, message: message + " (parameter=" + param + value + ")"}
}

// notIn refuses a number that is outside of its range.
func notIn(name, bounds string, v float64) *apiError {
	value := pythonFloat(v)
	return invalid(name+" must be "+bounds+", got "+value+".", name, value)
}

// pythonFloat is a number as Python has it.
func pythonFloat(v float64) string {
	return strconv.FormatFloat(v, 'f', max(1, len(strconv.FormatFloat(math.Mod(math.Abs(v), 1), 'f', -1, 64))-2), 64)
}

// refused is a refusal without a parameter.
func refused(message string) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: kindBadRequest, message: message}
}

// malformed is a body that does not fit the schema, at a member such as body.messages: vLLM says 400, never 422. What
// it shows of the input is left out.
func malformed(kind, at, why string) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: kindSchema, param: at,
		message: "1 validation error:" + detail(kind, at, why)}
}

// detail is one mistake of a body.
func detail(kind, at, why string) string {
	return "\n  {'type': '" + kind + "', 'loc': '" + at + "', 'msg': '" + why + "'}"
}

// also is a body that does not fit another schema either.
func (e *apiError) also(kind, at, why string) *apiError {
	both := *e
	both.message = strings.Replace(e.message, "1 validation error:", "2 validation errors:", 1) + detail(kind, at, why)
	return &both
}

func missing(field string) *apiError { return malformed("missing", "body."+field, "Field required") }

// noModel refuses a name other than the one that is served.
func noModel(name, served string) *apiError {
	return &apiError{status: http.StatusNotFound, kind: "NotFoundError", param: "model",
		message: "The model `" + name + "` does not exist. Valid aliases: " + served + "."}
}

// statusError is the error of a bare status, for faults.
func statusError(status int) *apiError {
	switch status {
	case http.StatusServiceUnavailable:
		return errBusy
	case http.StatusInternalServerError:
		return errDead
	}
	return &apiError{status: status, kind: http.StatusText(status), message: http.StatusText(status)}
}

// errorBody is an error as an engine writes it.
type errorBody struct {
	Object  string  `json:"object,omitempty"`
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    any     `json:"code"`
}

// errorIn is an error under the member error.
type errorIn struct {
	Error errorBody `json:"error"`
}
