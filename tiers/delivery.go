package tiers

import (
	"time"

	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/openai"
)

// Sink takes an answer. Begin is called once, before the first Write. Each Write holds whole frames, is flushed, and blocks
// until they are accepted.
type Sink interface {
	Begin(h ResponseHead) error
	Write(p []byte) error
}

// ResponseHead is the data for an answer's headers.
type ResponseHead struct {
	Stream           bool
	ContentType      string // of an answer that passes through; "" otherwise
	Length           int64  // of the body in bytes, also of a stream that is there as a whole; 0 or less is unknown
	Tier, Acceptance string // "" is not told
	FromCache        bool   // it is a cached answer
	Age              time.Duration
	Timing           Timing
}

// Timing splits the time until the first byte; 0 is not reported.
type Timing struct{ Cache, Draft, Verify, Target, Total time.Duration }

// head returns what is known of the answer at its first byte.
func (r *Request) head() ResponseHead {
	draft := r.Receipt.Draft
	if draft == 0 && r.Receipt.Target == 0 {
		draft = r.First - r.Verify
	}
	return ResponseHead{
		Stream: r.Body.Stream, Tier: string(r.Tier), Acceptance: r.Acceptance(),
		Timing: Timing{Cache: r.Lookup, Draft: draft, Verify: r.Verify, Target: r.Receipt.Target, Total: r.First},
	}
}

// Observer receives the content of an answer in the order in which the client gets it. Slices are valid during the call
// only. Whether the answer is complete, the caller of [Pipeline.Answer] knows.
type Observer interface {
	// Text is the next piece of a plain answer: one choice that is text and nothing else.
	Text(text []byte)
	// Chunk is the JSON of a chunk of any other stream. Text may have come before, none comes after.
	Chunk(chunk []byte)
	// Body is the JSON of an answer that a backend gave in one piece.
	Body(answer []byte)
	// End tells how the answer ended: of a plain one all of it, of others the usage.
	End(openai.Ending)
}

// Observers are the observers of one answer; nil is none.
type Observers []Observer

var _ Observer = Observers(nil)

// Text implements [Observer].
func (o Observers) Text(text []byte) {
	for _, each := range o {
		each.Text(text)
	}
}

// Chunk implements [Observer].
func (o Observers) Chunk(chunk []byte) {
	for _, each := range o {
		each.Chunk(chunk)
	}
}

// Body implements [Observer].
func (o Observers) Body(answer []byte) {
	for _, each := range o {
		each.Body(answer)
	}
}

// End implements [Observer].
func (o Observers) End(e openai.Ending) {
	for _, each := range o {
		each.End(e)
	}
}

// client writes an answer in the shape that the client asked for: a stream or one JSON body.
type client struct {
	request   *Request
	sink      Sink
	observer  Observer
	startedAt time.Time // when the request started
	framer    *openai.Framer
	headSent  bool
	buf       []byte
}

// frames returns the framer for answers that are not a backend's own frames.
func (c *client) frames() *openai.Framer {
	if c.framer == nil {
		c.framer = openai.NewFramer(c.request.Body.Kind, c.request.ID, c.request.Body.Model, c.startedAt.Unix())
	}
	return c.framer
}

// begin sends the head. length is that of a JSON body in bytes, 0 for a stream.
func (c *client) begin(length int) error {
	c.headSent = true
	c.request.RecordFirstByte()
	h := c.request.head()
	h.Length = int64(length)
	return c.sink.Begin(h)
}

// whole sends an answer in one write. length is as of begin.
func (c *client) whole(answer []byte, length int) error {
	if err := c.begin(length); err != nil {
		return err
	}
	return c.sink.Write(answer)
}

// open starts a stream. A chat answer starts with the role. prompt is the prompt's length in tokens.
func (c *client) open(prompt int) error {
	if c.headSent {
		return nil
	}
	if err := c.begin(0); err != nil {
		return err
	}
	if c.buf = c.frames().Role(c.buf[:0]); c.request.Body.UsageSoFar && len(c.buf) > 0 {
		c.buf = c.frames().UsageSoFar(c.buf, openai.Usage{Prompt: prompt})
	}
	return nil
}

// send sends text as part of a stream; empty text only starts the stream. soFar is the usage up to the end of the text. A
// client that waits for JSON gets nothing before the end.
func (c *client) send(text []byte, soFar openai.Usage) error {
	if err := c.open(soFar.Prompt); err != nil {
		return err
	}
	if len(text) > 0 {
		c.buf = c.frames().Text(c.buf, text)
		if c.request.Body.UsageSoFar {
			c.buf = c.frames().UsageSoFar(c.buf, soFar)
		}
		c.observer.Text(text)
	}
	if len(c.buf) == 0 {
		return nil
	}
	err := c.sink.Write(c.buf)
	c.buf = c.buf[:0]
	return err
}

// release sends the text that the transcript may release. prompt is the prompt's length in tokens.
func (c *client) release(t *draft.Transcript, prompt int) error {
	if !c.request.Body.Stream {
		return nil
	}
	text := t.Release()
	return c.send(text, openai.Usage{Prompt: prompt, Completion: t.TokensSent()})
}

// finish sends the rest of an answer and its end.
func (c *client) finish(t *draft.Transcript, e openai.Ending) error {
	if word, _, ok := t.Stop(); ok {
		e.Stop = openai.Quote(word)
	}
	rest := t.Rest()
	c.observer.Text(rest)
	c.observer.End(e)
	if !c.request.Body.Stream {
		body := c.frames().Body(nil, t.Text(), e)
		return c.whole(body, len(body))
	}
	if err := c.open(e.Usage.Prompt); err != nil {
		return err
	}
	c.buf = c.frames().Finish(c.buf, rest, e, c.request.Body.IncludeUsage)
	return c.sink.Write(c.buf)
}

// end finishes an answer with the tokens counted so far.
func (a *answer) end(t *draft.Transcript, f finish) error {
	a.Finish = f.reason
	return a.client.finish(t, openai.Ending{Finish: f.reason, Stop: f.stop, Usage: a.usage(), Extra: a.AppendExtra(nil)})
}
