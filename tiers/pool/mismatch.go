package pool

import "github.com/foregate/foregate/tiers/credentials"

// Use is what a pool's credentials are shown for.
type Use uint8

// The uses. They are told apart because engines and proxies guard some paths only: vLLM wants its key for /v1/… alone.
const (
	ForRequests    Use = iota // requests of the cascade, and probes
	ForPassthrough            // requests that are forwarded unchanged
	ForScrapes                // /metrics and /health
)

// useNames are the uses in the reason why a backend is bad.
var useNames = [...]string{"requests", "passthrough", "scrapes"}

// mismatch is a refusal of the credentials that were shown. It is over when there are new ones.
type mismatch struct {
	why   *credentials.Refusal // nil: none
	shown *credentials.Credentials
}

// now returns the refusal, nil if there is none of the credentials in force.
func (r mismatch) now(in *credentials.Credentials) *credentials.Refusal {
	if r.shown != in {
		return nil
	}
	return r.why
}
