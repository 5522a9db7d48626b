package plan

import (
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/prefix"
)

// TypicalOutput is the expected length in tokens of an answer whose length nobody told: about
// the mean of public conversation traces.
const TypicalOutput = 200

// DemandOf is what a request asks of a backend; head is what its prompt begins with.
func DemandOf(r *openai.Request, head prefix.Head) pool.Demand {
	d := pool.Demand{PromptTokens: r.PromptTokens, PromptBytes: r.PromptBytes, OutputTokens: TypicalOutput}
	if r.MaxTokens >= 0 {
		d.OutputTokens = min(r.MaxTokens, TypicalOutput)
	}
	d.MaxOutput, d.Answers = r.Limit(), r.N
	if r.PromptBytes == 0 {
		d.IDs = r.IDs
	}
	d.Parts = head.Parts(max(r.PromptBytes, len(head.System)+len(head.First)))
	return d
}

// EnginePriority is what an engine is told of a class: vLLM's priority scheduler takes the
// lower number first, and 0 is what a request has that names none. The middle class is 0.
func EnginePriority(class int8) int64 { return 10 * (1 - int64(class)) }
