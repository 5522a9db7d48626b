// Package probe finds out what an engine can do by asking it: which fields it
// knows, whether it scores a text that it is given, whether it goes on from token ids
// exactly, and by which tokenizer and template. What version an
// engine says it has is not believed; what it answers is. Start at [New], [Prober.Run] and
// [Capabilities].
//
// A probe costs an engine at most about 2,500 prompt tokens and 400 generated ones: half of
// the former are one text of 600 tokens that is scored twice, most of the latter one answer
// of 256. Each replica probes each pool for itself, when it starts, when the engine it asked
// was restarted or shows another model card, and every quarter of an hour.
package probe

import (
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/openai"
)

// Capabilities is what was found out about a pool's engines, by asking one of them. It is never
// changed once it was published. The nil Card knows nothing.
type Capabilities struct {
	At      time.Time
	Backend string // that was asked
	Life    uint64 // of that backend's engine
	Model   string
	Spent   Spent  // what it cost
	Failed  string // why the last probe brought nothing, or not all; the rest is what is known all the same

	Tokenizer string  // fingerprint of its ids for fixed texts; "" is unknown
	Template  string  // of its ids for fixed chats; "" is unknown
	EOS       []int32 // ids that end an answer
	Window    int     // context length in tokens; 0 is unknown

	RawLogprobs bool // they are those of temperature 1, whatever the request's
	Processed   bool // they are of the law that tokens were drawn by, after the request's temperature, top_k and top_p
	Plain       bool // that law is the model's own where a request names none of these; false, too, where it cannot be told
	Unscored    bool // it was seen to answer without logprobs, though it was asked for them
	TopLogprobs int  // the most alternatives that it tells, 0..20
	TokenIDs    bool // it tells the ids that it generates (return_token_ids)
	TokenBytes  bool // its logprobs have each token's bytes

	Scoring   openai.ScoreStyle // how it scores a text that it is given; "" is not at all
	ScoreTop  int               // the most alternatives that it tells of a place of such a text, 0..20
	Reuse     bool              // a text that was scored before costs less to score again
	Continues bool              // it goes on from ids as it would have from the chat

	// How much of the engine's own greedy answer it stands by when it scores it: the
	// ceiling of strict modes. Shares, 0..1: of the first choices, and of tokens within
	// 0.125 nat of them.
	SelfAgreement, SelfAgreementTol float64

	Missing []MissingCapability // what it lacks, sorted
}

// MissingCapability is something that an engine lacks, and how one knows.
type MissingCapability struct{ Name, Reason string }

// What may be missing.
const (
	MissingTokenizer = "tokenizer"        // nothing tells the ids of a text
	MissingTemplate  = "template"         // nor of a chat
	MissingTokenize  = "tokenize"         // /tokenize does not answer for texts or chats: a draft's text cannot be turned into ids
	MissingWords     = "detokenize"       // nor /detokenize: ids cannot be turned into text
	MissingIDs       = "token_ids"        // return_token_ids is not known
	MissingPromptIDs = "prompt_token_ids" // or it brings no ids of the prompt: a draft's ids cannot be scored, nor gone on from
	MissingLogprobs  = "logprobs"         // generated tokens come without
	MissingTop       = "top_logprobs"     // or without alternatives
	MissingRaw       = "raw_logprobs"     // or they follow the request's temperature, or one cannot tell
	MissingBytes     = "token_bytes"      // or they lack the tokens' bytes
	MissingScoring   = "scoring"          // no way to score a text
	MissingReuse     = "reuse"            // what was scored before costs as much again, or one cannot tell
	MissingAgreement = "self_agreement"   // it could not be measured
	MissingContinue  = "continuation"     // ids do not give the same answer as the chat
	MissingEOS       = "eos"              // no id was seen that ends an answer
	MissingWindow    = "window"           // /v1/models does not tell the context length
)

// CapabilityNames are all that may be missing: the values of the metric's label.
var CapabilityNames = []string{
	MissingTokenizer, MissingTemplate, MissingTokenize, MissingWords, MissingIDs, MissingPromptIDs, MissingLogprobs, MissingTop, MissingRaw, MissingBytes,
	MissingScoring, MissingReuse, MissingAgreement, MissingContinue, MissingEOS, MissingWindow,
}

// MissingReason returns why something is missing, "" where it is there. Of a nil card everything
// is missing.
func (c *Capabilities) MissingReason(what string) string {
	if c == nil {
		return "not probed yet"
	}
	if i := slices.IndexFunc(c.Missing, func(m MissingCapability) bool { return m.Name == what }); i >= 0 {
		return c.Missing[i].Reason
	}
	return ""
}

// SameTokens reports whether two pools read and write the same ids: known is false while
// what either has told does not decide it.
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
