package tiers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sort"
	"sync"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// relay passes the answer of one pool on without judging it. It replaces the model's name and adds the extra object.
type relay struct {
	*answer
	pool  Pool
	call  engine.Relay
	whole openai.Chunk // the answer to call, if it came in one piece
}

func (r *relay) run(ctx context.Context) error {
	r.Enter(r.pool.Tier)
	defer r.Leave()
	x, err := r.open(ctx)
	if err != nil {
		return err
	}
	return r.pass(ctx, x)
}

// pass passes on an answer that has begun.
func (r *relay) pass(ctx context.Context, x *dispatch.Exchange) error {
	defer x.Drop()
	r.Tier = r.pool.Tier
	if !r.Body.Stream {
		return r.passOn(x)
	}
	s := &streamRelay{relay: r, x: x, rich: r.Body.N > 1, keeps: r.Config.MidstreamFailover && r.pool.CanContinue(r.Body)}
	s.finishes.Want = r.Body.Choices()
	return s.run(ctx)
}

// open asks the pool. The call takes a KiB of the stack, which is free again while the stream waits: see
// TestAStreamThatWaitsTakesLittleMemory.
func (r *relay) open(ctx context.Context) (*dispatch.Exchange, error) {
	return r.Open(ctx, r.request())
}

// request returns the call to the pool.
func (r *relay) request() dispatch.Request {
	r.call = engine.Relay{Terms: r.Terms(r.pool), Request: r.Body, Into: &r.whole}
	o := r.NewRequest(r.pool, &r.call)
	o.Demand.Whole = !r.Body.Stream
	o.Deadline = r.deadline
	o.FirstByteTimeout = r.Config.Timeouts.DirectFirstByte(r.pool.Tier, r.Body)
	return o
}

// passOn passes on an answer that came in one piece.
func (r *relay) passOn(x *dispatch.Exchange) error {
	whole := &r.whole
	if whole.Usage.Prompt == 0 {
		whole.Usage.Prompt, r.Estimated = r.Body.PromptTokens, true
	}
	r.PromptTokens, r.Finish = whole.Usage.Prompt, string(whole.Finish)
	r.count(whole.Usage.Completion)
	x.Close(nil, whole.Usage.Completion)
	r.client.observer.Body(whole.Raw)
	r.client.observer.End(openai.Ending{Usage: whole.Usage})
	var room [256]byte
	buf, _ := bodies.Get().(*[]byte)
	defer bodies.Put(buf)
	out := openai.Rewrite((*buf)[:0], whole.Raw, whole.Model, whole.Close, r.Body.Model, r.AppendExtra(room[:0]))
	out = openai.CutCall(out, 0, r.ID)
	if cap(out) <= maxPooledBody {
		*buf = out
	}
	return r.client.whole(out, len(out))
}

// bodies is a pool of buffers for what is written to clients, whole answers and pieces of streams: without it they are a
// tenth of the bytes that a straight answer allocates (make cost), and a fifth of the CPU time of a stream that
// comes at once ("relayed stream, all at once" in loadtest/cost), and half of what a hit of the cache allocates (BenchmarkCost).
// Nobody keeps one: a Sink copies what it cannot write at once.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// maxPooledBody is the largest buffer that is reused, in bytes.
const maxPooledBody = 64 << 10

// streamRelay passes a stream on frame by frame. It holds back a frame that may be the last, because the extra object in
// it tells the usage that comes after.
type streamRelay struct {
	*relay
	x        *dispatch.Exchange
	finishes engine.FinishTracker

	room      *[]byte // from bodies, while buf is not empty
	buf       []byte
	heldFrame []byte // JSON of the frame that is held back
	model     openai.Span
	end       int
	frames    int  // frames that say something, counted once per choice
	told      bool // the usage of the whole answer came

	keeps bool   // another backend may continue if this one fails
	text  []byte // of the answer, if keeps
	ends  []int  // end of each frame in text
	named []byte // JSON of a frame; a continuation copies its id and creation time
	rich  bool   // the answer holds more than the text of one choice
	stop  []byte // stop_reason as raw JSON
}

// run passes the stream on, with one write for each upstream read.
func (s *streamRelay) run(ctx context.Context) error {
	if err := s.client.begin(0); err != nil {
		s.x.Close(nil, 0)
		return err
	}
	movable := s.keeps && !s.rich
	s.x.SetMovable(movable)
	for {
		c, err := s.x.Next(engine.WantTokens)
		if err == io.EOF {
			break
		}
		if f, lost := errors.AsType[*engine.Failure](err); lost {
			s.x.Close(f, s.frames)
			if s.finishes.All() {
				break // only the usage is missing
			}
			s.estimate()
			return s.moves(ctx, f)
		}
		if s.forward(c); movable && (s.rich || !s.keeps) {
			s.keeps, movable = false, false
			s.x.SetMovable(false) // no backend can continue such an answer
		}
		if s.x.Buffered() {
			continue
		}
		if err := s.write(); err != nil {
			s.estimate()
			s.x.Close(nil, s.frames)
			return err
		}
	}
	if !s.told {
		s.estimate()
		s.endWithoutUsage()
	}
	s.x.Close(nil, s.AcceptedTokens+s.TargetTokens)
	s.writeLast(s.AppendExtra(nil))
	s.client.observer.End(s.ending())
	return s.write()
}

// moves lets another backend continue a stream that broke, if possible.
func (s *streamRelay) moves(ctx context.Context, f *engine.Failure) error {
	if !s.keeps || s.rich || !s.mayFailOver(f) {
		return &BrokenError{f}
	}
	if err := s.write(); err != nil { // frames that came before the failure
		return err
	}
	if !s.deadline.IsZero() {
		left, cancel := s.World.WithTimeout(ctx, s.deadline.Sub(s.World.Now()))
		defer cancel()
		ctx = left
	}
	return s.resumeRelayed(ctx)
}

// forward takes one frame. It drops the usage frame if only the gateway asked for it.
func (s *streamRelay) forward(c *openai.Chunk) {
	over := s.finishes.All()
	if !over && (len(c.Text) > 0 || !c.Plain) {
		s.frames += c.Choices
	}
	s.finishes.Add(c)
	if c.HasUsage {
		s.told, s.PromptTokens = s.finishes.AllBegun(), c.Usage.Prompt
		s.count(c.Usage.Completion)
	}
	if over && c.Choices > 0 {
		return // what comes behind the end is no part of the answer
	}
	if len(c.Finish) > 0 {
		s.Finish = string(c.Finish)
	}
	s.notify(c)
	if s.named == nil && (s.keeps || s.Body.IncludeUsage) {
		s.named = openai.CutCall(append(make([]byte, 0, len(c.Raw)), c.Raw...), 0, s.ID)
	}
	if c.HasUsage && c.Choices == 0 && !s.Body.IncludeUsage {
		return
	}
	s.flushHeldFrame(nil)
	if len(c.Finish) > 0 || c.Choices == 0 {
		s.heldFrame = append(s.heldFrame, c.Raw...)
		s.model, s.end = c.Model, c.Close
		return
	}
	s.frame(c.Raw, c.Model, c.Close, nil)
}

// notify passes a frame's content to the observer.
func (s *streamRelay) notify(c *openai.Chunk) {
	switch s.rich = s.rich || !c.Plain || c.Foreign || c.Choices > 1; {
	case c.Choices == 0 && !c.Foreign: // the usage comes with the end
	case s.rich:
		s.client.observer.Chunk(c.Raw)
	default:
		s.client.observer.Text(c.Text)
		s.stop = append(s.stop[:0], c.Stop...)
		if s.keeps && int64(len(s.text)+len(c.Text)) > s.MaxBody {
			s.keeps, s.text, s.ends = false, nil, nil
		}
		if s.keeps && len(c.Text) > 0 {
			s.text = append(s.text, c.Text...)
			s.ends = append(s.ends, len(s.text))
		}
	}
}

// ending returns how the stream ended.
func (s *streamRelay) ending() openai.Ending {
	return openai.Ending{Finish: s.Finish, Stop: s.stop, Usage: s.usage()}
}

// minTokens returns a lower bound for the tokens in the first text bytes: one per frame, less what the engine may have
// held back to search for stop strings.
func (s *streamRelay) minTokens(text int) int {
	held := 0
	for _, stop := range s.Body.Stop {
		held = max(held, len(stop)-1)
	}
	return max(sort.SearchInts(s.ends, text+1)-held, 0)
}

// writeLast writes the last frame with the extra object, and the terminator.
func (s *streamRelay) writeLast(extra []byte) {
	s.flushHeldFrame(extra)
	s.makeRoom()
	s.buf = append(s.buf, "data: "+openai.Done+"\n\n"...)
}

func (s *streamRelay) flushHeldFrame(extra []byte) {
	if len(s.heldFrame) > 0 {
		s.frame(s.heldFrame, s.model, s.end, extra)
		s.heldFrame = s.heldFrame[:0]
	}
}

func (s *streamRelay) frame(raw []byte, model openai.Span, end int, extra []byte) {
	s.makeRoom()
	s.buf = append(s.buf, "data: "...)
	for i := bytes.IndexByte(raw, '\n'); i >= 0; i = bytes.IndexByte(raw, '\n') {
		raw[i] = ' ' // of an event of several lines; inside a JSON string it cannot be
	}
	at := len(s.buf)
	s.buf = openai.Rewrite(s.buf, raw, model, end, s.Body.Model, extra)
	s.buf = append(openai.CutCall(s.buf, at, s.ID), "\n\n"...)
}

// endWithoutUsage replaces the usage frame of an answer whose engine sent none.
func (s *streamRelay) endWithoutUsage() {
	if s.PromptTokens == 0 {
		s.PromptTokens = s.Body.PromptTokens // as estimated
	}
	if !s.Body.IncludeUsage {
		return
	}
	s.flushHeldFrame(nil)
	s.heldFrame = s.framer().UsageChunk(s.ending().Usage)
	s.model, s.end = openai.Span{}, len(s.heldFrame)-1
}

// estimate counts one token per frame if the stream broke before its usage came.
func (s *streamRelay) estimate() {
	if s.AcceptedTokens+s.TargetTokens == 0 {
		s.count(s.frames)
	}
	s.Estimated = true
}

// makeRoom takes a buffer for the next frames.
func (s *streamRelay) makeRoom() {
	if s.room == nil {
		s.room, _ = bodies.Get().(*[]byte)
		s.buf = (*s.room)[:0]
	}
}

// write writes the frames and gives their buffer back: a stream that waits has none.
func (s *streamRelay) write() error {
	if len(s.buf) == 0 {
		return nil
	}
	err := s.client.sink.Write(s.buf)
	if cap(s.buf) <= maxPooledBody {
		*s.room = s.buf
	}
	bodies.Put(s.room)
	s.room, s.buf = nil, nil
	return err
}

// framer writes frames with the id and the creation time of those that the client has.
func (s *streamRelay) framer() *openai.Framer {
	id, created := openai.Named(s.named)
	return openai.NewFramerAs(s.Body.Kind, id, s.Body.Model, created)
}

// resumeRelayed continues a relayed answer that broke.
func (s *streamRelay) resumeRelayed(ctx context.Context) error {
	t := draft.NewTranscript(draft.TranscriptOptions{Stop: s.Body.Stop, IncludeStop: s.Body.IncludeStop, Text: s.text, Sent: len(s.text)})
	c := &continuation{
		answer: s.answer, t: t, pool: s.pool, counter: Counter{Lost: []string{s.x.Backend()}}, midStream: true, prompt: s.PromptTokens,
	}
	s.client.framer = s.framer()
	s.count(0)
	return c.afterText(ctx, s.minTokens)
}
