package plan

import (
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/prefix"
)

// TypicalOutput is the expected length of an answer in tokens before any was seen: about the mean of public conversation
// traces.
const TypicalOutput = 200

// DemandOf returns what a request needs of a backend. head is the beginning of its prompt.
func DemandOf(r *openai.Request, head prefix.Head) pool.Demand {
	d := pool.Demand{PromptTokens: r.PromptTokens, PromptBytes: r.PromptBytes, OutputTokens: TypicalOutput}
	if r.MaxTokens >= 0 {
		d.OutputTokens = min(r.MaxTokens, TypicalOutput)
	}
	d.MaxOutput, d.Answers, d.LongestShare = r.Limit(), r.Answers(), r.LongestShare()
	d.Parts = head.Parts(max(r.PromptBytes, len(head.System)+len(head.First)))
	return d
}

// EnginePriority returns vLLM's priority for a class: its priority scheduler takes lower numbers first, and requests
// without a priority have 0, as has the middle class.
func EnginePriority(class int8) int64 { return 10 * (1 - int64(class)) }
