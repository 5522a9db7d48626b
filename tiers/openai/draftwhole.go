package openai

import (
	"fmt"

	"github.com/go-json-experiment/json"
)

// wholeDraft is what a ChunkParser reads of a whole draft besides the chunk.
type wholeDraft struct {
	calls          []Call
	contentMembers int // number of members with content: message, text, delta
}

// readCalls reads the calls of a message, which are valid JSON, and reports whether it understood everything.
func (w *wholeDraft) readCalls(raw []byte) (ok bool) {
	var read []SaidCall
	if json.Unmarshal(raw, &read) != nil || len(w.calls) > 0 {
		return false
	}
	w.calls, ok = understoodCalls(read)
	return ok
}

// DraftAnswer is a whole answer of a draft backend: not streamed, with logprobs and token ids. It is like one
// chunk; all fields except Choices belong to the first choice. Engines include the token that ends the answer,
// which has no text. Plain means that it has only text and tool calls, all of them understood.
type DraftAnswer struct {
	Chunk
	Calls  []Call
	Finish string // finish_reason, "" while null
	Stop   []byte // stop_reason as raw JSON; nil is null
}

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
	a := DraftAnswer{Chunk: *c, Calls: p.whole.calls, Finish: string(c.Finish)}
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
