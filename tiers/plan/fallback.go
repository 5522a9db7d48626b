package plan

import (
	"bytes"
	"slices"
	"strings"

	"github.com/foregate/foregate/tiers/openai"
)

// FailureCause says why the route's own pools gave no answer.
type FailureCause string

// The causes. With any other a request stays in the house.
const (
	CauseNone        FailureCause = ""            // the error is the request's own, or the client's
	CauseUnavailable FailureCause = "unavailable" // no backend could take it, or none answered before the first byte
	CauseShed        FailureCause = "shed"        // it was refused admission
)

// FallbackState is what became of a fallback for a request.
type FallbackState uint8

// The states.
const (
	FallbackUntried FallbackState = iota
	FallbackSpent                 // it has no dollars left in this hour, or its dollars cannot be counted
	FallbackFailed                // it gave no answer
)

// Candidate is a fallback of a route, as far as the decision needs it.
type Candidate struct {
	When    []FailureCause
	Allowed bool // the tenant may use every model name under which the operator offers the same servers
	State   FallbackState
}

// FallbackFacts are the inputs of [ChooseFallback].
type FallbackFacts struct {
	Cause      FailureCause
	External   bool // the tenant's requests may leave
	Demanded   bool // the client demands a tier or the target's distribution
	Sent       bool // the client, or another one that shares the answer, has a byte of it already
	Gone       bool // the client has left, or the answer is made elsewhere
	Unfit      bool // the request has something that an outsider does not know ([FitsOutside])
	Candidates []Candidate
}

// Why a request is not answered by a fallback, as receipts and metrics name it.
const (
	StayNoFallback = "none"        // the route has none for this cause
	StayTenant     = "tenant"      // the tenant may not leave, or may not use the model
	StayDemanded   = "demanded"    // a tier or the target's distribution is demanded
	StaySent       = "sent"        // a byte was sent
	StayGone       = "client_gone" // nobody waits
	StayUnfit      = "unfit"       // the request has fields that only the operator's engines know
	StaySpent      = "spent"       // no dollars are left
	StayFailed     = "failed"      // every one that was tried failed
)

// ChooseFallback returns the index of the fallback that a request goes to next; -1 is none, and why says the reason. A
// fallback is tried once, in the order of the route. Of several that cannot be asked, the reason is the one that says most: a
// failure, then dollars, then the tenant's rights.
func ChooseFallback(f FallbackFacts) (index int, why string) {
	switch {
	case f.Cause == CauseNone || len(f.Candidates) == 0:
		return -1, StayNoFallback
	case f.Sent:
		return -1, StaySent
	case f.Gone:
		return -1, StayGone
	case !f.External:
		return -1, StayTenant
	case f.Demanded:
		return -1, StayDemanded
	case f.Unfit:
		return -1, StayUnfit
	}
	reasons, most := [...]string{StayNoFallback, StayTenant, StaySpent, StayFailed}, 0
	for i := range f.Candidates {
		c := &f.Candidates[i]
		switch {
		case !slices.Contains(c.When, f.Cause):
		case !c.Allowed:
			most = max(most, 1)
		case c.State == FallbackUntried:
			return i, ""
		default:
			most = max(most, 1+int(c.State))
		}
	}
	return -1, reasons[most]
}

// outsideFields are the members of a request that any OpenAI-compatible server knows, and that mean the same to another
// model. logit_bias is not among them: it names the ids of one vocabulary.
var outsideFields = strings.Fields(`model messages prompt max_tokens max_completion_tokens temperature top_p n stream
	stream_options stop presence_penalty frequency_penalty logprobs top_logprobs user seed tools tool_choice
	parallel_tool_calls response_format reasoning_effort suffix echo metadata`)

// FitsOutside reports whether a request can be sent to a server of which nothing is known but that it speaks OpenAI's
// API: all its members are OpenAI's, and its prompt is text.
func FitsOutside(r *openai.Request) bool {
	for _, name := range r.Members() {
		if !slices.Contains(outsideFields, name) {
			return false
		}
	}
	if bytes.Contains(r.Raw("stream_options"), []byte("continuous_usage_stats")) {
		return false
	}
	prompt := bytes.TrimLeft(r.Raw("prompt"), "[ \t\r\n")
	return r.Kind == openai.Chat || len(prompt) > 0 && prompt[0] == '"'
}

// ForFallback returns the settings of a route for an answer by a fallback: no draft and no continuation by another
// backend, and one attempt, because a second one might be paid twice.
func (c Config) ForFallback() Config {
	c.MidstreamFailover, c.MaxRetries = false, 0
	return c
}

// FallbackDecision is that of an answer by a fallback.
func FallbackDecision() Decision {
	return Decision{Plan: Plan{Tier: Fallback, Reason: "fallback"}, Steps: []Step{{Fallback, Relay}}}
}
