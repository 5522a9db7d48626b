package openai

// Kind is one of the two generation endpoints.
type Kind uint8

// The endpoints whose requests the cascade answers.
const (
	Chat       Kind = iota // POST /v1/chat/completions
	Completion             // POST /v1/completions
)

// Path is the endpoint's path on the wire.
func (k Kind) Path() string {
	if k == Completion {
		return "/v1/completions"
	}
	return "/v1/chat/completions"
}

// Usage is the token count of an answer. Cached are the prompt tokens that cost nothing, as reported for an
// answer from a cache; [ChunkParser] does not read them.
type Usage struct{ Prompt, Completion, Cached int }
