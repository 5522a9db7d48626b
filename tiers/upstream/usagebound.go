package upstream

import "github.com/foregate/foregate/tiers/openai"

// usageBound is the largest possible usage of a call. Limits, metrics, receipts, costs and audits use values
// within it.
type usageBound struct {
	sent   openai.Pieces // the call's body
	prompt int           // maximum for its prompts; 0: derived from sent
	answer int           // maximum for its answer

	searched  bool // sent was searched: the next fields are known
	maxTokens int  // maximum tokens in sent
	hides     bool // the answer may omit generated tokens
}

// inOnePiece tells clamp that the answer is not a stream.
const inOnePiece = -1

// clamp limits the usage that an engine reports: the prompt by the bytes that were sent, the answer by its limit, and in
// a stream by the bytes received, because each token is an event or a part of one. An engine that goes on behind the limit
// has generated what it said: a token has at least a byte. Without a count it has, by estimate.
func (b *usageBound) clamp(u openai.Usage, came int64, said int) openai.Usage {
	if u.Completion <= 0 {
		u.Completion = openai.EstimateTokens(said)
	}
	can := openai.Bound{Prompt: b.prompt, Answer: max(b.answer, said)}
	if b.prompt == 0 {
		can.Prompt = b.sent.Len()
		if u.Prompt > can.Prompt {
			b.search()
			can.Prompt = b.maxTokens
		}
	}
	if came != inOnePiece && int64(u.Completion) > came {
		if b.search(); !b.hides {
			can.Answer = min(can.Answer, int(came))
		}
	}
	return can.Clamp(u)
}

// search searches the body, once and only if it may matter.
func (b *usageBound) search() {
	if !b.searched {
		sent := b.sent.Bytes()
		b.searched, b.maxTokens, b.hides = true, openai.MaxPromptTokens(sent), openai.HidesTokens(sent)
	}
}
