// Package clientapi lets clients of other APIs use the cascade. A request of such an API becomes a body of
// /v1/chat/completions, which is planned, cached, limited and answered like any chat completion; the chat
// completion that the cascade writes becomes an answer in the API's form. So there is one internal form, and a
// kept answer serves the clients of every API. Start at [API].
//
// The packages below it hold one API each. They are pure: no network, no clock, no logger.
package clientapi

import "github.com/foregate/foregate/tiers/openai"

// API is one API of clients.
type API interface {
	// Translate reads a request's body, which [openai.Peek] has accepted. The error is an [*openai.RequestError] with the
	// API's own field names, or an [*EngineOnlyError].
	Translate(body []byte) (*Request, error)
	// ErrorBody appends the body of a refusal with an HTTP status; id is the request's.
	ErrorBody(dst []byte, status int, e openai.ErrorBody, id string) []byte
	// NewEncoder returns an encoder for the error of a stream that an engine writes itself, without a translated request.
	NewEncoder(id string) Encoder
}

// Request is a translated request.
type Request struct {
	Chat   []byte // a body of /v1/chat/completions
	Kept   int    // bytes of the body that the encoder keeps a copy of
	Stream bool   // the client wants server-sent events

	// Stored says that the end of the answer waits for a store: [Encoder.End] and [Encoder.Whole] must be called where nobody else waits.
	Stored bool

	// Dropped is for the receipt.
	Dropped Dropped
	// Thinking is what the request says of thinking.
	Thinking Thinking

	// NewEncoder returns the encoder of the answer; id is the request's, without a prefix. maxBytes is the maximum of what it
	// keeps of an answer until its end; 0 is no limit. It may be called again for another attempt at writing the answer.
	NewEncoder func(id string, maxBytes int64) Encoder
	// Param returns the API's own name of a field of Chat that a refusal names; "" stays "".
	Param func(chat string) string
}

// Encoder writes one answer in the API's form. An answer is either one [Encoder.Whole], or any number of
// [Encoder.Part] and one [Encoder.End]. It is for one goroutine. Slices of what it is given are valid during the call.
// Its errors say that the engine's answer has no form in the API.
type Encoder interface {
	// Whole appends an answer in one piece.
	Whole(dst []byte, a *Part) ([]byte, error)
	// Part appends the events of the next part of a stream.
	Part(dst []byte, p *Part) ([]byte, error)
	// End appends the events that end a whole stream.
	End(dst []byte) ([]byte, error)
	// Broken appends the event that tells why a stream ends in the middle. status is the HTTP status that a
	// refusal for this reason has.
	Broken(dst []byte, status int, e openai.ErrorBody) []byte
}

// EngineOnlyError says that only an engine's own implementation of the API can serve a request.
type EngineOnlyError struct {
	Field  string // the first that needs it
	Reason Reason
}

// Error implements error.
func (e *EngineOnlyError) Error() string { return e.Field + " is not supported: " + string(e.Reason) }

// Reason says why the cascade does not serve a field, for the client.
type Reason string

// The reasons.
const (
	ReasonState   Reason = "responses are not stored here, so send the whole conversation as input, with store: false"
	ReasonTool    Reason = "this gateway takes only tools that the client defines and runs"
	ReasonPrefill Reason = "this gateway does not go on with an answer that the client has begun"
	ReasonNoChat  Reason = "this gateway answers requests as chat completions, which have nothing like it"
	ReasonUnknown Reason = "this gateway does not know it"
)
