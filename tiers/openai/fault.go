package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Fault is an error as reported by a backend.
type Fault struct {
	Status  int    // its "code" as a number, or what its words mean; 0 when they say nothing
	Type    string // vLLM's type, such as BadRequestError
	Message string // shortened, without addresses and control characters
	Param   string // the field at fault, "" where it does not say; as Message, 128 bytes at most
	Code    string // its "code" in words, of ASCII letters, digits, "_", "-" and ".", 64 bytes at most; "" where it does not say
	TooLong bool   // the prompt, or prompt and answer together, are longer than the context; Status is 400
}

// longestMessage bounds a backend's message for the client.
const longestMessage = 512

// longestParam bounds the name of a field, in bytes.
const longestParam = 128

// ParseFault parses an error body in any of the forms that backends use: {"error":{…}}, {"error":"…"}, a flat
// object, {"detail":…}. It never fails.
func ParseFault(body []byte) *Fault {
	members, _ := Members(body)
	for _, name := range []string{"error", "detail"} {
		if raw := members[name]; isText(raw) || name == "error" && len(raw) > 0 && raw[0] == '{' {
			return parseFault(raw)
		}
	}
	return readFault(members)
}

// parseFault parses an error: an object, or its message alone.
func parseFault(raw []byte) *Fault {
	members, isObject := Members(raw)
	if !isObject {
		members = map[string]json.RawMessage{"message": raw}
	}
	return readFault(members)
}

func readFault(members map[string]json.RawMessage) *Fault {
	f := &Fault{}
	if raw := members["message"]; isText(raw) {
		f.Message = safeMessage(raw)
	}
	if raw := members["type"]; isText(raw) {
		f.Type = clip(string(unquote(nil, raw)), 64)
	}
	if raw := members["param"]; isText(raw) {
		f.Param = clip(safeMessage(raw), longestParam)
	}
	if raw := members["code"]; len(raw) > 0 {
		f.code(string(bytes.Trim(raw, `"`)), raw[0] == '"')
	}
	if f.Status == 0 || f.Type == tooLongType {
		f.word(f.Type)
	}
	says := func(part string) bool { return strings.Contains(f.Message, part) }
	if f.TooLong = f.TooLong || slices.ContainsFunc(tooLong, says); f.TooLong {
		f.Status = http.StatusBadRequest // engines of 2025 say 500
		f.Code = cmp.Or(f.Code, codeTooLong)
	}
	return f
}

// codeTooLong is OpenAI's code of an error about a prompt that is longer than the context.
const codeTooLong = "context_length_exceeded"

// code reads a code: a status, or a word.
func (f *Fault) code(code string, isText bool) {
	if status, err := strconv.Atoi(code); err == nil {
		f.Status = status
		return
	}
	f.word(code)
	if isText && len(code) <= 64 && strings.Trim(code, wordLetters) == "" {
		f.Code = code
	}
}

// wordLetters are the letters of a code that is passed on.
const wordLetters = letters + "_-."

// tooLongType is llama.cpp's type of an error about a prompt that is longer than its context.
const tooLongType = "exceed_context_size_error"

// tooLong are parts of what engines say of a prompt that is longer than their context.
var tooLong = []string{
	"maximum context length",             // vLLM, SGLang, OpenAI
	"longer than the maximum model",      // vLLM
	"be greater than max_model_len",      // vLLM, of max_tokens alone
	"exceeds the max_model_len",          // vLLM, Responses
	"longer than the model's context",    // SGLang
	"exceeds the available context size", // llama.cpp
	"exceeds the context length",         // Ollama
	"exceeded max context length",
}

// word derives the status from the error names of backends without numeric codes.
func (f *Fault) word(word string) {
	switch word {
	case "invalid_request_error", "json_parse_error", "BadRequestError", "content_filter", "invalid_image", "invalid_schema":
		f.Status = http.StatusBadRequest
	case "model_not_found", "NotFoundError", "not_found_error":
		f.Status = http.StatusNotFound
	case tooLongType, codeTooLong:
		f.TooLong = true
	case "not_supported_error":
		f.Status = http.StatusNotImplemented
	case "unavailable_error":
		f.Status = http.StatusServiceUnavailable
	case "rate_limit_exceeded", "rate_limit_error":
		f.Status = http.StatusTooManyRequests
	}
}

// memoryAddress is a memory address of at least six digits.
var memoryAddress = regexp.MustCompile(`0x[0-9a-fA-F]{6,}`)

// safeMessage removes what must not reach a client from a backend's message: control characters and memory
// addresses.
func safeMessage(raw []byte) string {
	text := bytes.Map(func(r rune) rune {
		if r < ' ' && r != '\n' {
			return -1
		}
		return r
	}, unquote(nil, raw))
	text = memoryAddress.ReplaceAll(text, []byte("0x…"))
	return string(bytes.ToValidUTF8(text[:min(len(text), longestMessage)], nil))
}
