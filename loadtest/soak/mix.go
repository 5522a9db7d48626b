package soak

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest/answer"
	"github.com/foregate/foregate/loadtest/chaos"
)

const (
	prompts    = 120 // different ones
	longPrompt = 4   // every so many prompts one is long
	longWords  = 150

	limitedTenant = "initech" // has a limit that it exceeds
	limitedRPM    = 30        // its requests a minute

	longestStay = 500 * time.Millisecond // of a client that leaves
)

// lengths are the max_tokens of requests, with their shares.
var lengths = []struct {
	tokens int
	share  float64
}{{16, 0.6}, {32, 0.25}, {96, 0.15}}

// Shares of requests.
const (
	shareStreamed  = 0.6
	shareTarget    = 0.4 // for the target alone
	shareCacheable = 0.25
	shareLeft      = 0.05 // by their clients
	shareLimited   = 0.02 // of the tenant that has a limit
	shareResponses = 0.2
	shareMessages  = 0.2
	shareHigh      = 0.2
	shareLow       = 0.3
)

// prompt is number n of the prompts.
func prompt(n int) string {
	text := fmt.Sprintf("Question %d of the soak: what is the colour of the sea today?", n)
	if n%longPrompt == 0 {
		text += strings.Repeat(" And why?", longWords/2)
	}
	return text
}

// questions are all that requests ask.
func questions() (all []chaos.Question) {
	for n := range prompts {
		for _, l := range lengths {
			all = append(all, chaos.Question{Prompt: prompt(n), MaxTokens: l.tokens})
		}
	}
	return all
}

// request is request n of a seed: the same n is the same request.
func request(seed uint64, n int) chaos.Request {
	random := rand.New(rand.NewPCG(seed, uint64(n))) //nolint:gosec // a load is no secret
	r := chaos.Request{
		Prompt: prompt(random.IntN(prompts)), Tokens: tokens(random.Float64()), Stream: random.Float64() < shareStreamed,
		Tenant: chaos.Tenants[random.IntN(len(chaos.Tenants))], Priority: "normal", Header: http.Header{},
	}
	switch p := random.Float64(); {
	case p < shareHigh:
		r.Priority = "high"
	case p < shareHigh+shareLow:
		r.Priority = "low"
	}
	switch a := random.Float64(); {
	case a < shareResponses:
		r.API = answer.Responses
	case a < shareResponses+shareMessages:
		r.API = answer.Messages
	case r.Stream:
		r.Fields = map[string]any{"stream_options": map[string]any{"include_usage": true}}
	}
	if random.Float64() < shareTarget {
		r.Header.Set("X-Tier", "target")
	}
	if random.Float64() >= shareCacheable {
		r.Header.Set("Cache-Control", "no-store")
	}
	if random.Float64() < shareLimited {
		r.Tenant = limitedTenant
	}
	if stay := random.Float64(); random.Float64() < shareLeft {
		r.Leave = 1 + time.Duration(stay*float64(longestStay))
	}
	return r
}

// tokens are the max_tokens at a place between 0 and 1.
func tokens(at float64) int {
	for _, l := range lengths {
		if at -= l.share; at < 0 {
			return l.tokens
		}
	}
	return lengths[0].tokens
}
