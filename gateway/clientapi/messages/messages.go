// Package messages is the Messages API: its requests as chat completions, and chat completions as its answers.
// Start at [API].
package messages

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// API is the Messages API.
type API struct {
	Counts bool // the requests are those of count_tokens, which need no max_tokens
}

var _ clientapi.API = API{}

// NewEncoder implements [clientapi.API].
func (API) NewEncoder(id string) clientapi.Encoder { return newEncoder(id, 0, false) }

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

// tooLong are the ways in which engines and the gateway say that a request does not fit into a context. The groups are the
// context's length, the prompt's, and that of the answer that is asked for, in tokens.
var tooLong = []*regexp.Regexp{
	regexp.MustCompile(`too large: (?P<answer>\d+)\..*maximum context length is (?P<context>\d+) tokens and your request has (?P<prompt>\d+) input tokens`), // vLLM
	regexp.MustCompile(`maximum context length is (?P<context>\d+) tokens.*\((?P<prompt>\d+) in the messages, (?P<answer>\d+) in the completion`),           // vLLM, OpenAI
	regexp.MustCompile(`maximum context length is (?P<context>\d+) tokens.*requested (?P<answer>\d+) output tokens.* (?P<prompt>\d+) input tokens`),         // vLLM
	regexp.MustCompile(`maximum context length is (?P<context>\d+) tokens.* (?P<prompt>\d+) input tokens`),                                                  // vLLM
	regexp.MustCompile(`prompt \(length (?P<prompt>\d+)\).*maximum model length of (?P<context>\d+)`),                                                       // vLLM
	regexp.MustCompile(`\((?P<prompt>\d+) tokens\) exceeds the available context size \((?P<context>\d+) tokens`),                                           // llama.cpp
	regexp.MustCompile(`\((?P<prompt>\d+) tokens\) is longer than the model's context length \((?P<context>\d+) tokens`),                                    // SGLang
	regexp.MustCompile(`prompt has (?P<prompt>\d+) tokens, and the backends of this model have memory for (?P<context>\d+)`),                                // the gateway
}

// tooLongMessage says in Anthropic's words that a request does not fit: by them agents know that they must shorten the
// conversation, or ask for a shorter answer.
func tooLongMessage(message string) string {
	for _, how := range tooLong {
		found := how.FindStringSubmatch(message)
		if found == nil {
			continue
		}
		of := func(name string) int {
			if i := how.SubexpIndex(name); i > 0 {
				n, _ := strconv.Atoi(found[i])
				return n
			}
			return 0
		}
		prompt, answer, context := of("prompt"), of("answer"), of("context")
		if prompt < context && answer > 0 {
			return fmt.Sprintf("input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or `max_tokens` and try again", prompt, answer, context)
		}
		return fmt.Sprintf("prompt is too long: %d tokens > %d maximum", prompt, context)
	}
	return "prompt is too long: " + cmp.Or(message, "it exceeds the context")
}
