package vllmsim

import (
	"net/http"
	"strconv"
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

// invalid is a semantic refusal of one parameter (vLLM's VLLMValidationError).
func invalid(message, param, value string) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: kindBadRequest, param: param,
		message: message + " (parameter=" + param + ", value=" + value + ")"}
}

// refused is a refusal without a parameter.
func refused(message string) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: kindBadRequest, message: message}
}

// malformed is a body that does not fit the schema: vLLM says 400, never 422.
func malformed(detail string) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: kindSchema, message: "1 validation error:\n  " + detail}
}

func noModel(name string) *apiError {
	return &apiError{status: http.StatusNotFound, kind: "NotFoundError", param: "model",
		message: "The model `" + name + "` does not exist."}
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

// body is the error as JSON.
func (e *apiError) body() []byte {
	b := append([]byte(nil), `{"error":{"message":`...)
	return append(e.fields(b, e.param), '}')
}

// flat is the error as SGLang shows it: it never names a parameter.
func (e *apiError) flat(b []byte) []byte {
	return e.fields(append(b, `{"object":"error","message":`...), "")
}

func (e *apiError) fields(b []byte, param string) []byte {
	b = appendQuoted(b, e.message)
	b = append(b, `,"type":`...)
	b = appendQuoted(b, e.kind)
	b = append(b, `,"param":`...)
	b = appendNullable(b, param)
	b = append(b, `,"code":`...)
	b = strconv.AppendInt(b, int64(e.status), 10)
	return append(b, '}')
}
