package live

import (
	"encoding/json"

	"github.com/foregate/foregate/loadtest"
)

// chat is a chat completion request.
type chat struct {
	Model         string             `json:"model"`
	Messages      []loadtest.Message `json:"messages"`
	Temperature   float64            `json:"temperature"`
	MaxTokens     int                `json:"max_tokens,omitempty"`
	IgnoreEOS     bool               `json:"ignore_eos,omitempty"`
	Stream        bool               `json:"stream,omitempty"`
	StreamOptions *streamOptions     `json:"stream_options,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// body is the request as JSON.
func body(model string, q *loadtest.Request) []byte {
	c := chat{Model: model, Messages: q.Messages, Temperature: q.Temperature, MaxTokens: q.MaxTokens, IgnoreEOS: q.IgnoreEOS, Stream: q.Stream}
	if q.Stream {
		c.StreamOptions = &streamOptions{true}
	}
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // texts and numbers
	}
	return text
}
