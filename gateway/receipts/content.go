package receipts

import (
	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/openai"
)

// Content is what one request asked and what it was answered, in the form of OpenTelemetry's conventions for generative AI: for
// the spans of tenants that opted in. Headers and keys are never part of it. [Content.Observe] comes first, [Content.Ask] while the request's
// body is there, [Content.End] last.
type Content struct {
	Input     string // messages of the request as JSON, at most 32 KiB; "" before Ask
	Output    string // messages of the answer, one for each choice, as JSON, at most 32 KiB; "" before End, or without an answer
	Truncated bool   // some of both is missing

	kind     openai.Kind
	observed *observer // of the last attempt; nil: there was none
}

// NewContent returns the content of a request of a kind.
func NewContent(kind openai.Kind) *Content { return &Content{kind: kind} }

// Observe returns what receives a new attempt at the answer.
func (c *Content) Observe() tiers.Observer {
	c.observed = &observer{whole: openai.NewAssembler(c.kind, maxAnswer)}
	return c.observed
}

// Ask copies the messages of the request.
func (c *Content) Ask(r *openai.Request) {
	c.Input = c.bounded(input(r))
}

// End takes the answer: that of an entry of the cache, or, where entry is nil, the one that was observed.
func (c *Content) End(entry *cache.Entry) {
	var all []message
	switch {
	case entry != nil:
		if w, err := openai.ParseWhole(entry.Answer); err == nil {
			all = output(w)
		}
	case c.observed != nil:
		var cut bool
		all, cut = c.observed.messages()
		c.Truncated = c.Truncated || cut
	}
	if len(all) > 0 {
		c.Output = c.bounded(all)
	}
}

// Size is the number of bytes of the content; 0 where there is none.
func (c *Content) Size() int {
	if c == nil {
		return 0
	}
	return len(c.Input) + len(c.Output)
}

// observer collects an answer while it is made.
type observer struct {
	whole *openai.Assembler
	begin []byte // of a plain answer: at most maxMessages bytes
}

var _ tiers.Observer = (*observer)(nil)

// Text implements [tiers.Observer].
func (o *observer) Text(text []byte) {
	o.whole.Text(text)
	o.begin = append(o.begin, text[:min(len(text), maxMessages-len(o.begin))]...)
}

// Chunk implements [tiers.Observer].
func (o *observer) Chunk(chunk []byte) { o.whole.Chunk(chunk) }

// Body implements [tiers.Observer].
func (o *observer) Body(answer []byte) { o.whole.Body(answer) }

// End implements [tiers.Observer].
func (o *observer) End(e openai.Ending) { o.whole.End(e) }

// messages returns the answer. Of one that broke off, or is too long, it is the beginning of its text; cut is then true.
func (o *observer) messages() (all []message, cut bool) {
	w, err := o.whole.Whole()
	switch {
	case err == nil:
		return output(w), false
	case len(o.begin) == 0:
		return nil, true
	}
	return []message{{Role: "assistant", Parts: []part{{Type: "text", Content: string(o.begin)}}, FinishReason: "error"}}, true
}
