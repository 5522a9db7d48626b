// Package probe finds out what an engine supports by asking it: scoring of a given text, exact continuation from token
// ids, tokenizer and chat template. It asks by the calls that requests make ([engine.Upstream]), so what it finds is what
// they get. The reported version is not used. Start at [New], [Prober.Run] and [Capabilities].
//
// A probe costs an engine at most about 300 prompt tokens and 75 generated ones. An engine is asked once: at the fleet's start,
// and after it has restarted or shows another model card. A probe that gets no answer goes on later at the same question. One
// replica asks, the others take over what it found out ([Prober.Tell], [Prober.Take]).
package probe

import (
	"time"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/openai"
)

// Capabilities is the result of a probe of one of a pool's engines. It never changes after it was published. A nil
// Capabilities knows nothing.
type Capabilities struct {
	At      time.Time    `json:"-"` // of the last answer
	Backend string       // the probed backend
	Life    uint64       `json:"-"` // of that backend's engine
	Engine  dialect.Kind // by whose rules it was asked; "" is vLLM's
	Model   string

	Tokenizer string  // fingerprint of its ids for fixed texts; "" is unknown
	Template  string  // of its ids for fixed chats; "" is unknown
	EOS       []int32 // ids that end an answer
	Window    int     // context length in tokens; 0 is unknown

	Unscored bool // it answers without logprobs that can be believed, although they were requested
	TokenIDs bool // it returns generated ids: token_ids, or the id of each entry of logprobs
	Thinks   bool // it thinks before it answers, unless it is told not to ([dialect.Members].TemplateArgs)

	Continue dialect.Continue // what it answers that is asked to continue the text of a chat's answer

	Scoring openai.ScoreStyle   // how it scores a given text; "": not at all
	Missing []MissingCapability // what it lacks, sorted
}

// MissingCapability is something that an engine lacks, and the reason.
type MissingCapability struct{ Name, Reason string }

// The capabilities.
const (
	MissingTokenize  = "tokenize"         // /tokenize does not answer for texts or chats: a draft's text cannot be turned into ids
	MissingWords     = "detokenize"       // nor /detokenize: ids cannot be turned into text
	MissingIDs       = "token_ids"        // answers tell no ids
	MissingPromptIDs = "prompt_token_ids" // or no ids of the prompt: a draft's ids cannot be scored, nor gone on from
	MissingLogprobs  = "logprobs"         // generated tokens come without, or with untrue ones, or thoughts come first
	MissingJudge     = "judge"            // chats are refused, or thoughts come before an answer: nothing can be asked in words
	MissingScoring   = "scoring"          // no way to score a text
	MissingContinue  = "continuation"     // ids do not give the same answer as the chat
	MissingEOS       = "eos"              // no id was seen that ends an answer: the end of a draft's text is not scored
	MissingWindow    = "window"           // nothing tells the context length
)

// CapabilityNames are all capabilities: the values of the metric's label.
var CapabilityNames = []string{
	MissingTokenize, MissingWords, MissingIDs, MissingPromptIDs, MissingLogprobs, MissingJudge, MissingScoring, MissingContinue, MissingEOS,
	MissingWindow,
}

// MissingReason returns why a capability is missing; "" if it is there. For nil everything is missing.
func (c *Capabilities) MissingReason(what string) string {
	if c == nil {
		return "not probed yet"
	}
	for _, m := range c.Missing {
		if m.Name == what {
			return m.Reason
		}
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
