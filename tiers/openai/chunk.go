package openai

import (
	"errors"
	"sync"
)

// Chunk is one event of a streamed answer. Its slices are valid until the next
// Parse.
type Chunk struct {
	Raw     []byte // its JSON as received; nil if there was none, as in the lab
	Model   Span   // the value of "model", quotes included; empty when absent
	Close   int    // offset of the object's last brace
	Choices int    // choices in this chunk
	Text    []byte // new text of the last choice
	Plain   bool   // only role and text of the first choice: no tool call, no reasoning
	Foreign bool   // it has content that an answer built from Text, Finish and Stop would not have
	Finish  []byte // finish_reason of the last choice, empty while null
	Begun   []int  // indexes of the choices that say something
	Ended   []int  // indexes of the choices that have a finish_reason
	Aborted bool   // of one of them it is "abort": the engine gave it up
	Stop    []byte // stop_reason as raw JSON, or SGLang's matched_stop if it is a string

	PromptIDs  []int32
	IDs        []int32
	Logprobs   []float64 // of each new token, in nats
	TokenBytes []int     // number of bytes of each new token; 0 if the backend does not report it
	Told       TokenText // what the new tokens say of themselves

	Usage    Usage
	HasUsage bool
	Counts   [3]Span // places of its counts: prompt, completion and total; empty when absent
	Fault    *Fault  // the event reports an error

	tops   []float64 // the alternatives' logprobs of all tokens
	topEnd []int     // where each token's part of tops ends
}

// Top returns the logprobs of token i's most likely alternatives.
func (c *Chunk) Top(i int) []float64 {
	from := 0
	if i > 0 {
		from = c.topEnd[i-1]
	}
	return c.tops[from:c.topEnd[i]]
}

// AddTop adds the alternatives' logprobs of the next token, for code that makes chunks without a parser.
func (c *Chunk) AddTop(logprobs ...float64) {
	c.tops = append(c.tops, logprobs...)
	c.topEnd = append(c.topEnd, len(c.tops))
}

// Reset empties c and keeps its memory, except that of the prompt's ids: only the first chunk of a stream has them.
func (c *Chunk) Reset() {
	*c = Chunk{
		Text: c.Text[:0], Finish: c.Finish[:0], Begun: c.Begun[:0], Ended: c.Ended[:0], Stop: c.Stop[:0], IDs: c.IDs[:0],
		Logprobs: c.Logprobs[:0], TokenBytes: c.TokenBytes[:0], tops: c.tops[:0], topEnd: c.topEnd[:0],
		Told: TokenText{Text: c.Told.Text[:0]},
	}
}

// endToken completes a token of so many bytes.
func (c *Chunk) endToken(size int) {
	c.TokenBytes = append(c.TokenBytes, size)
	c.topEnd = append(c.topEnd, len(c.tops))
}

// ChunkParser parses the chunks of one stream, reusing its memory.
type ChunkParser struct {
	Judged bool // read logprobs and token ids as well
	NoTop  bool // but not the alternatives' logprobs
	// LogprobIDs says that the ids of tokens are in their entries of logprobs (llama.cpp), and in token_ids none.
	LogprobIDs bool

	cur   cursor
	chunk Chunk
	whole *wholeDraft // only for ParseDraftAnswer; see there
}

// chunkParsers are parsers of streams that ended: their memory is most of what it allocates to parse a judged stream
// (BenchmarkStream).
var chunkParsers = sync.Pool{New: func() any { return new(ChunkParser) }}

// BorrowChunkParser returns a parser for a stream. It may be given back with Release.
func BorrowChunkParser(judged bool) *ChunkParser {
	p, _ := chunkParsers.Get().(*ChunkParser)
	p.Judged = judged
	return p
}

// Release gives the parser back for another stream: no chunk of it is valid afterwards, except for its PromptIDs and its
// Fault, which are never memory of a parser. Nothing that it parsed is left in it.
func (p *ChunkParser) Release() {
	const most = 4 << 10 // entries of a slice; parsers of longer chunks are not kept
	c := &p.chunk
	if !p.cur.forget() || cap(c.Text) > most || cap(c.Stop) > most || cap(c.Logprobs) > most || cap(c.IDs) > most || cap(c.tops) > most ||
		cap(c.Ended) > most || cap(c.Begun) > most || cap(c.Told.Text) > most {
		return
	}
	c.Reset()
	p.Judged, p.NoTop, p.LogprobIDs, p.whole = false, false, false, nil
	chunkParsers.Put(p)
}

// errNotChunk is returned for a data event that is JSON but not a chunk.
var errNotChunk = errors.New("not an answer chunk")

// ofNoAccount reports whether a top-level member describes the backend or this generation, and not the
// answer.
func ofNoAccount(name []byte) bool {
	switch string(name) {
	case "id", "object", "created", "model", "system_fingerprint", "service_tier", "metrics", "foregate",
		"timings",  // llama.cpp
		"metadata": // SGLang: the version of its weights
		return true
	}
	return false
}

// expectObject marks the chunk as malformed unless an object comes next.
func (p *ChunkParser) expectObject() {
	if p.cur.kind() != '{' {
		p.cur.token() // reports a syntax error, if it is one
		p.cur.fail(errNotChunk)
	}
}
