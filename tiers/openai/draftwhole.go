package openai

import "fmt"

// DraftAnswer is a whole answer of a draft backend: not streamed, with logprobs and token ids. All fields
// except Choices belong to the first choice.
type DraftAnswer struct {
	Choices int    // choices in the answer
	Text    []byte // content, or text of a completion
	Calls   []Call
	Finish  string // finish_reason, "" while null
	Stop    []byte // stop_reason as raw JSON; nil is null

	PromptIDs  []int32
	IDs        []int32
	Logprobs   []float64 // of each token, in nats; engines include the one that ends the answer, which has no text
	TokenBytes []int     // number of bytes of each token; 0 if the backend does not report it
	Usage      Usage

	Plain   bool // it has only text and tool calls, all of them understood
	Foreign bool // it has content that a rebuilt answer would not have: see [Chunk]
	Fault   *Fault

	Model Span // as in [Answer], for [Rewrite]
	End   int

	chunk Chunk
}

// Top returns the logprobs of token i's most likely alternatives.
func (a *DraftAnswer) Top(i int) []float64 { return a.chunk.Top(i) }

// ParseDraftAnswer parses the body of a draft that was not streamed. It is stricter than [ParseAnswer],
// because the judged text must be what the client will read: duplicate names are errors, and so is a choice
// with both a message and a text. logprobIDs is as in [ChunkParser]. The result does
// not share memory with the body.
func ParseDraftAnswer(body []byte, logprobIDs bool) (DraftAnswer, error) {
	p := ChunkParser{Judged: true, LogprobIDs: logprobIDs, whole: &wholeDraft{}}
	c, err := p.Parse(body)
	if err != nil {
		return DraftAnswer{}, fmt.Errorf("draft: %w", err)
	}
	if p.whole.contentMembers > 1 || p.whole.contentMembers == 0 && c.Choices > 0 {
		return DraftAnswer{}, fmt.Errorf("draft: a choice says %d things: %w", p.whole.contentMembers, errNotChunk)
	}
	if n := len(c.topEnd); n != len(c.Logprobs) {
		return DraftAnswer{}, fmt.Errorf("draft: alternatives of %d tokens for %d: %w", n, len(c.Logprobs), errNotChunk)
	}
	a := DraftAnswer{
		Choices: c.Choices, Text: c.Text, Calls: p.whole.calls, Finish: string(c.Finish),
		PromptIDs: c.PromptIDs, IDs: c.IDs, Logprobs: c.Logprobs, TokenBytes: c.TokenBytes, Usage: c.Usage,
		Plain: c.Plain, Foreign: c.Foreign, Fault: c.Fault, Model: c.Model, End: c.Close, chunk: *c,
	}
	if len(c.Stop) > 0 && string(c.Stop) != "null" {
		a.Stop = c.Stop
	}
	return a, nil
}

// Whole returns the draft as an answer that can be written in both forms, [Framer.Whole] or
// [Framer.WholeStream]. For an answer that is Plain and not Foreign, it is complete for the client: it omits
// only what was requested for judging. It shares the draft's memory.
func (a *DraftAnswer) Whole(kind Kind) *Whole {
	c := Choice{Text: a.Text, Calls: a.Calls, Finish: a.Finish, Null: len(a.Text) == 0 && len(a.Calls) > 0}
	if isStop(a.Stop) {
		c.Stop = a.Stop
	}
	return &Whole{Kind: kind, Choices: []Choice{c}, Usage: a.Usage}
}
