package engine

import (
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
)

// Call is what an engine is asked for: one of the types below. A call is not changed once it was
// made; what Into points to is set when its answer has come.
type Call interface {
	// Usage is what the engine has counted for an answer in one piece, within what can be; zero for
	// one that is streamed.
	Usage() openai.Usage
}

// uncounted is a call of whose answer the engine has counted nothing, or nothing that the next could be judged by: one that is
// streamed tells in its chunks.
type uncounted struct{}

// Usage implements [Call].
func (uncounted) Usage() openai.Usage { return openai.Usage{} }

// Terms are what an engine is told with every question.
type Terms struct {
	Model    string // its pool's
	Salt     string // keeps a tenant's blocks apart in the prefix cache; "" is none
	Priority *int64 // for engines that schedule by it; nil for others
}

// Relay asks for the answer to a request as the engine gives it: streamed if the request is. It is
// passed on, not judged.
type Relay struct {
	Terms
	Request *openai.Request
	Into    *Whole // where the answer is not streamed
}

// Whole is an answer in one piece, checked, with its bytes.
type Whole struct {
	openai.Answer
	Body []byte
}

// Draft asks for a streamed answer with ids, logprobs and alternatives of each token. The gateway
// matches its stop strings itself.
type Draft struct {
	uncounted
	Terms
	Request *openai.Request
	Counted bool // each chunk tells the usage so far, because it tells no ids
}

// DraftWhole asks for the same in one piece.
type DraftWhole struct {
	Terms
	Request *openai.Request
	Into    *openai.DraftAnswer
}

// Answer asks for a whole answer in one piece, without logprobs.
type Answer struct {
	Terms
	Request *openai.Request
	Into    *openai.DraftAnswer
}

// ContinueIDs asks for the rest of an answer, streamed, behind token ids.
type ContinueIDs struct {
	uncounted
	Terms
	Request        *openai.Request // samples as it does
	PromptIDs, IDs []int32         // of the prompt, and of the answer so far
	MaxTokens      int             // of the rest, more than 0
}

// ContinueText asks for the rest of an answer, streamed, behind a text.
type ContinueText struct {
	uncounted
	Terms
	Request   *openai.Request
	Text      []byte // of the answer so far; empty asks for all of it
	MaxTokens int    // of the rest; 0 is as the request says
}

// FirstBlock asks for the first tokens of an answer.
type FirstBlock struct {
	Terms
	Request   *openai.Request
	MaxTokens int
	Into      *Block
}

// NextBlock asks for the next ones.
type NextBlock struct {
	Terms
	Request        *openai.Request
	PromptIDs, IDs []int32
	MaxTokens      int
	Into           *Block
}

// Block is a few tokens of an answer.
type Block struct {
	PromptIDs, IDs []int32
	Plain          bool   // nothing but text
	Finish         string // finish_reason, "" while the answer may go on
	Used           openai.Usage
}

// DraftListed asks for a draft in one piece that is drawn by a law of its own, with the likeliest
// tokens of each place by their ids.
type DraftListed struct {
	Terms
	Request   *openai.Request
	Law       accept.Sampling
	MaxTokens int
	Into      *ListedDraft
}

// ListedDraft is a draft with the likeliest tokens of each of its places. Err says why they cannot be
// used; it matches [ErrListed].
type ListedDraft struct {
	openai.DraftAnswer
	Places [][]accept.Token
	Err    error
}

// Draws asks for the next token so many times, without a seed.
type Draws struct {
	Terms
	Request        *openai.Request
	PromptIDs, IDs []int32
	N              int
	Into           *[]Draw
}

// Draw is a token that the engine drew, with the logprob that it was drawn with.
type Draw struct {
	accept.Token
	Ends bool // the answer ends with it
}

// Score asks what the engine thinks of ids behind a prompt.
type Score struct {
	uncounted
	Question openai.ScoreQuestion
	Into     *openai.Scores
}

// ScoreListed is Score with the likeliest tokens of each place by their ids.
type ScoreListed struct {
	uncounted
	Question openai.ScoreQuestion
	Into     *[][]accept.Token
}

// Judge asks in words whether an answer is right.
type Judge struct {
	uncounted
	Terms
	Request *openai.Request
	Answer  []byte
	Into    *float64 // log odds of yes to no, in nats
}

// TokenizeText asks for the ids of a text.
type TokenizeText struct {
	uncounted
	Model string
	Text  []byte
	Into  *[]int32
}

// TokenizePrompt asks for the ids of a request's prompt, with its template.
type TokenizePrompt struct {
	uncounted
	Model   string
	Request *openai.Request
	Into    *[]int32
}

// Detokenize asks for the text of ids.
type Detokenize struct {
	uncounted
	Model string
	IDs   []int32
	Into  *[]byte
}

// Forward sends a body on as it is. Its answer comes byte by byte: [openai.Chunk].Raw.
type Forward struct {
	uncounted
	Path string
	Body []byte
	Into *Forwarded
}

// Forwarded is the head of such an answer.
type Forwarded struct {
	Type   string // its media type, in the gateway's own words
	Length int64  // of its body in bytes; less than 0 is unknown
	Events bool   // it is a stream of events

	// Used is what the answer has told of its tokens with the chunks so far, within what can be. Until
	// it has ended, and where it tells nothing, each event with a part of an answer counts as a token.
	Used openai.Usage
}

// Usage implements [Call].
func (c *Relay) Usage() openai.Usage {
	if c.Into == nil {
		return openai.Usage{}
	}
	return c.Into.Usage
}

// Usage implements [Call].
func (c *DraftWhole) Usage() openai.Usage { return c.Into.Usage }

// Usage implements [Call].
func (c *Answer) Usage() openai.Usage { return c.Into.Usage }

// Usage implements [Call].
func (c *FirstBlock) Usage() openai.Usage { return c.Into.Used }

// Usage implements [Call].
func (c *NextBlock) Usage() openai.Usage { return c.Into.Used }

// Usage implements [Call].
func (c *DraftListed) Usage() openai.Usage { return c.Into.Usage }

// Usage implements [Call].
func (c *Draws) Usage() openai.Usage {
	return openai.Usage{Prompt: len(c.PromptIDs) + len(c.IDs), Completion: len(*c.Into)}
}
