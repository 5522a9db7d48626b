package openai

import (
	"math"

	"github.com/foregate/foregate/tiers/fields"
)

// Rescan parses a changed body of a request that was accepted. It refuses nothing that [Scan] has accepted.
func (r *Request) Rescan(body []byte) (*Request, error) {
	const most = math.MaxInt32
	return Scan(r.Kind, body, Limits{
		Depth: most, Fields: most, Messages: most, N: most, Answers: most, Tokens: most, Stops: most, LogitBias: most, Grammar: most,
		Allow: func(string) []string { return fields.Allowed() },
	})
}
