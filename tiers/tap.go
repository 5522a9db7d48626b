package tiers

import "github.com/foregate/foregate/tiers/openai"

// Tap hears what an answer says while it goes to the client, in the client's order. What it is
// given is valid during the call only. That the answer is whole, [Cascade.Answer] tells by its
// result.
type Tap interface {
	// Text is the next piece of a plain answer: one choice that is text and nothing else.
	Text(text []byte)
	// Chunk is the JSON of a chunk of any other stream. Text may have come before, none comes after.
	Chunk(chunk []byte)
	// Body is the JSON of an answer that a backend gave in one piece.
	Body(answer []byte)
	// End tells how the answer ended: of a plain one all of it, of others the usage.
	End(openai.Ending)
}

type noTap struct{}

func (noTap) Text([]byte)       {}
func (noTap) Chunk([]byte)      {}
func (noTap) Body([]byte)       {}
func (noTap) End(openai.Ending) {}
