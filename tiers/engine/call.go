package engine

import (
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/openai"
)

// Call is a request to an engine: one of the types below. It does not change after it was made; Into is set when the
// answer has come.
type Call any

// Terms are sent to an engine with every call.
type Terms = openai.Terms

// Relay requests an answer to pass on without judging it, streamed if the request is.
type Relay struct {
	Terms
	Request *openai.Request
	Into    *openai.Chunk // where the answer is not streamed: all of it
}

// Draft asks for a streamed answer with ids, logprobs and alternatives of each token. The gateway
// matches its stop strings itself.
type Draft struct {
	Terms
	Request *openai.Request
	Counted bool // each chunk tells the usage so far, because it tells no ids
}

// Answer asks for a whole answer in one piece.
type Answer struct {
	Terms
	Request *openai.Request
	Draft   bool // as Draft: with ids, logprobs and alternatives of each token
	Into    *openai.DraftAnswer
}

// ContinueIDs requests the rest of an answer as a stream, after token ids.
type ContinueIDs struct {
	Terms
	Request        *openai.Request // samples as it does
	PromptIDs, IDs []int32         // of the prompt, and of the answer so far
	MaxTokens      int             // of the rest, more than 0
}

// ContinueText requests the rest of an answer as a stream, after a text.
type ContinueText struct {
	Terms
	Request   *openai.Request
	Text      []byte // of the answer so far; empty asks for all of it
	MaxTokens int    // of the rest; 0 is as the request says

	Found  dialect.Continue // what the pool's probed engine answers to it, which is of the kind Probed
	Probed dialect.Kind
}

// Score requests the scores of ids after a prompt.
type Score struct {
	Question openai.ScoreQuestion
	Into     *openai.Scores
}

// Judge asks in words whether an answer is correct.
type Judge struct {
	Question openai.JudgeQuestion // but for what engines differ in
	Thinks   bool                 // the engine thinks before it answers unless it is told not to
	Into     *openai.Judgement
}

// TokenizeText asks for the ids of a text.
type TokenizeText struct {
	Model string
	Text  []byte
	Into  *[]int32
}

// TokenizePrompt asks for the ids of a request's prompt, with its template.
type TokenizePrompt struct {
	Model   string
	Request *openai.Request
	Into    *[]int32
}

// Detokenize asks for the text of ids.
type Detokenize struct {
	Model string
	IDs   []int32
	Into  *[]byte
}

// Ask reads what an engine tells of itself, by GET.
type Ask struct {
	Path string
	Into *[]byte // the body of its answer
}

// Forward sends a body unchanged. Its answer comes as raw bytes: [openai.Chunk].Raw.
type Forward struct {
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
