package clientapi

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
