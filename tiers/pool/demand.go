package pool

import (
	"time"

	"github.com/foregate/foregate/tiers/pool/estimate"
	"github.com/foregate/foregate/tiers/prefix"
)

// Demand describes a request that needs a backend.
type Demand struct {
	PromptTokens int     // counted or estimated, of all prompts
	PromptBytes  int     // of text from which the pool estimates the tokens; 0: PromptTokens is exact
	LongestShare float64 // how much of the prompts the longest one is, 0 … 1; 0: there is one prompt
	OutputTokens int     // expected of one answer
	MaxOutput    int     // max_tokens of one answer; 0: unknown
	Answers      int     // answers to all prompts together; 0 means 1
	NoAnswer     bool    // the prompts are computed only, each alone, such as for embeddings
	Whole        bool    // the answer comes in one piece, so its first token is not seen

	Admission Admission // limits for the chosen backend

	Parts [prefix.MaxParts]prefix.Part // prefixes of the prompt; entries with Key 0 are unused

	Optional bool // the request is useless if it waits: never use a suspect backend or one with an open breaker, even if no other is left

	WarmBackend string   // id of a backend that has just computed this prompt; "": none
	Exclude     []string // ids of backends that were tried already
}

// Admission limits how full a backend may be, or become, to get a request; see candidate.above.
type Admission struct {
	MaxUsage float64 // share of the KV cache, 0..1; 0: no limit
	MaxQueue int     // requests that may wait there; 0: no limit
	Now      bool    // count current use only, not the forecast

	MaxDelay time.Duration // longest time until the engine is expected to begin with the prompt; 0: no limit

	// CanWaitForWarm says that the request can wait for room where it is warm, although there
	// is some elsewhere; Waited is how long it has done so.
	CanWaitForWarm bool
	Waited         time.Duration
}

// key returns the key of the prompt's longest known prefix; 0 if none is known.
func (d *Demand) key() prefix.Key {
	for i := len(d.Parts) - 1; i >= 0; i-- {
		if k := d.Parts[i].Key; k != 0 {
			return k
		}
	}
	return 0
}

func (d *Demand) answers() int { return max(d.Answers, 1) }

// stepTokens are the prompt tokens that an engine computes in one step at most: vLLM's max_num_batched_tokens on large GPUs.
const stepTokens = 8192

// holds returns how many of the prompts' tokens are in memory at once: without answers, those of one step.
func (d *Demand) holds(prompt, longest int) int {
	if d.NoAnswer {
		return min(prompt, max(longest, stepTokens))
	}
	return prompt
}

// Tokens is the size of the request beside others: prompts and expected answers.
func (d *Demand) Tokens() int { return d.PromptTokens + d.OutputTokens*d.answers() }

// parts returns the used entries of Parts.
func (d *Demand) parts() []prefix.Part {
	n := 0
	for n < len(d.Parts) && d.Parts[n].Key != 0 {
		n++
	}
	return d.Parts[:n]
}

// kind returns the kind of the answer for length estimates, −1 if the prompt does not tell.
func (d *Demand) kind() int {
	if first := d.Parts[0]; first.Key != 0 && first.Share < 1 {
		return int(first.Key % estimate.Kinds)
	}
	return -1
}
