// Package probe finds out what an engine supports by asking it: request fields, scoring of a given text, exact
// continuation from token ids, tokenizer and chat template. The reported version is not used. Start at [New],
// [Prober.Run] and [Capabilities].
//
// A probe costs an engine at most about 2,200 prompt tokens and 420 generated ones: half of the former are one text of
// 600 tokens that is scored twice, most of the latter one answer of 256. Each replica probes each pool itself: at its
// start, after the probed engine has restarted or shows another model card, and every 15 minutes.
package probe

import (
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/openai"
)

// Capabilities is the result of a probe of one of a pool's engines. It never changes after it was published. A nil
// Capabilities knows nothing.
type Capabilities struct {
	At      time.Time
	Backend string       // the probed backend
	Life    uint64       // of that backend's engine
	Engine  dialect.Kind // by whose rules it was asked; "" is vLLM's
	Model   string
	Spent   Spent  // what it cost
	Failed  string // why the last probe failed or is incomplete; the other fields are still valid

	Tokenizer string  // fingerprint of its ids for fixed texts; "" is unknown
	Template  string  // of its ids for fixed chats; "" is unknown
	EOS       []int32 // ids that end an answer
	Window    int     // context length in tokens; 0 is unknown

	Unscored    bool // it has answered without logprobs although they were requested
	TopLogprobs int  // largest number of alternatives in logprobs, 0..20
	TokenIDs    bool // it returns generated ids: token_ids, or the id of each entry of logprobs
	Thinks      bool // it thinks before it answers, unless it is told not to ([dialect.Thinking])

	Scoring   openai.ScoreStyle // how it scores a given text; "": not at all
	Reuse     bool              // scoring a text again costs less
	Continues bool              // continuing from ids gives the same answer as from the chat

	Missing []MissingCapability // what it lacks, sorted
	Hazards []Hazard            // what goes wrong there although it answers, sorted
}

// MissingCapability is something that an engine lacks, and the reason.
type MissingCapability struct{ Name, Reason string }

// The capabilities.
const (
	MissingTokenizer = "tokenizer"        // nothing tells the ids of a text
	MissingTemplate  = "template"         // nor of a chat
	MissingTokenize  = "tokenize"         // /tokenize does not answer for texts or chats: a draft's text cannot be turned into ids
	MissingWords     = "detokenize"       // nor /detokenize: ids cannot be turned into text
	MissingIDs       = "token_ids"        // answers tell no ids
	MissingPromptIDs = "prompt_token_ids" // or it brings no ids of the prompt: a draft's ids cannot be scored, nor gone on from
	MissingLogprobs  = "logprobs"         // generated tokens come without
	MissingScoring   = "scoring"          // no way to score a text
	MissingReuse     = "reuse"            // what was scored before costs as much again, or one cannot tell
	MissingContinue  = "continuation"     // ids do not give the same answer as the chat
	MissingEOS       = "eos"              // no id was seen that ends an answer
	MissingWindow    = "window"           // nothing tells the context length
)

// CapabilityNames are all capabilities: the values of the metric's label.
var CapabilityNames = []string{
	MissingTokenizer, MissingTemplate, MissingTokenize, MissingWords, MissingIDs, MissingPromptIDs, MissingLogprobs,
	MissingScoring, MissingReuse, MissingContinue, MissingEOS, MissingWindow,
}

// MissingReason returns why a capability is missing; "" if it is there. For nil everything is missing.
func (c *Capabilities) MissingReason(what string) string {
	if c == nil {
		return "not probed yet"
	}
	if i := slices.IndexFunc(c.Missing, func(m MissingCapability) bool { return m.Name == what }); i >= 0 {
		return c.Missing[i].Reason
	}
	return ""
}

// HazardReason returns why an engine has a hazard; "" if the last probe did not see it, and for nil.
func (c *Capabilities) HazardReason(name string) string {
	if c == nil {
		return ""
	}
	if i := slices.IndexFunc(c.Hazards, func(h Hazard) bool { return h.Name == name }); i >= 0 {
		return c.Hazards[i].Reason
	}
	return ""
}

// SameTokens reports whether two pools use the same token ids. known is false while the probes do not decide it.
func SameTokens(a, b *Capabilities) (same, known bool) {
	switch {
	case a == nil || b == nil || a.Tokenizer == "" || b.Tokenizer == "":
		return false, false
	case a.Tokenizer != b.Tokenizer:
		return false, true
	case a.Template == "" || b.Template == "":
		return false, false
	}
	return a.Template == b.Template, true
}
