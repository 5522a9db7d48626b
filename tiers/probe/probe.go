// Package probe finds out what an engine can do by asking it: which fields it
// knows, whether it scores a text that it is given, whether it goes on from token ids
// exactly, and by which tokenizer and template (acceptance.md §3.0). What version an
// engine says it has is not believed; what it answers is. Start at [Card].
package probe

import (
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/openai"
)

// Card is what was found out about a pool's engines, by asking one of them. It is never
// changed once it was published. The nil Card knows nothing.
type Card struct {
	At      time.Time
	Backend string // that was asked
	Model   string

	Tokenizer string  // fingerprint of its ids for fixed texts; "" is unknown
	Template  string  // of its ids for fixed chats; "" is unknown
	EOS       []int32 // ids that end an answer
	Window    int     // context length in tokens; 0 is unknown

	RawLogprobs bool // they are those of temperature 1, whatever the request's
	TopLogprobs int  // the most alternatives that it tells, 0..20
	TokenIDs    bool // it tells the ids that it generates (return_token_ids)
	TokenBytes  bool // its logprobs have each token's bytes

	Scoring   openai.ScoreStyle // how it scores a text that it is given; "" is not at all
	Reuse     bool              // a text that was scored before costs less to score again
	Continues bool              // it goes on from ids as it would have from the chat

	// How much of the engine's own greedy answer it stands by when it scores it: the
	// ceiling of strict modes. Shares, 0..1: of the first choices, and of tokens within
	// 0.125 nat of them.
	SelfAgreement, SelfAgreementTol float64

	Missing []Missing // what it lacks, sorted
}

// Missing is something that an engine lacks, and how one knows.
type Missing struct{ What, Why string }

// What may be missing.
const (
	MissingTokenizer = "tokenizer"    // /tokenize did not answer
	MissingTemplate  = "template"     // nor for chats
	MissingIDs       = "token_ids"    // return_token_ids is not known
	MissingLogprobs  = "logprobs"     // generated tokens come without
	MissingScoring   = "scoring"      // no way to score a text
	MissingContinue  = "continuation" // ids do not give the same answer as the chat
	MissingEOS       = "eos"          // no id was seen that ends an answer
)

// Lacks returns why something is missing, "" where it is there. Of a nil card everything
// is missing.
func (c *Card) Lacks(what string) string {
	if c == nil {
		return "not probed yet"
	}
	if i := slices.IndexFunc(c.Missing, func(m Missing) bool { return m.What == what }); i >= 0 {
		return c.Missing[i].Why
	}
	return ""
}

// SameTokens reports whether two pools read and write the same ids: known is false while
// either has not told.
func SameTokens(a, b *Card) (same, known bool) {
	if a == nil || b == nil || a.Tokenizer == "" || b.Tokenizer == "" {
		return false, false
	}
	return a.Tokenizer == b.Tokenizer && a.Template == b.Template, true
}
