package tiers

import (
	"bytes"
	"context"
	"io"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// direct answers from one pool, unjudged: the backend's own frames or body with
// the model's name put right and the extra object added.
func (j *job) direct(ctx context.Context, p *pool.Pool, tier plan.Tier) error {
	r := j.ask.Request
	edits := j.engineEdits(p)
	if r.Stream && !r.IncludeUsage {
		edits = append(edits, openai.Edit{Name: "stream_options", Value: []byte(usageStream)})
	}
	k := j.call(p, r.Kind.Path(), r.Apply(make([]byte, 0, len(r.Body)+256), edits...))
	k.stream, k.choices, k.demand.Whole = r.Stream, r.Choices(), !r.Stream
	k.firstByte = j.cfg.Timeouts.DirectFirstByte(tier, r)
	rc := j.receipt
	if tier == plan.Target {
		j.enter(&rc.Target)
	} else {
		j.enter(&rc.Draft)
	}
	defer j.leave()
	x, err := j.cascade.dispatch(ctx, k, j.cfg, rc)
	if err != nil {
		return err
	}
	defer x.drop()
	rc.Tier = tier
	if j.begun(); tier == plan.Target {
		rc.TargetFirst = rc.Target
	}
	if r.Stream {
		return j.relayStream(ctx, x)
	}
	return j.relayBody(x)
}

func (j *job) relayBody(x *exchange) error {
	rc, a := j.receipt, x.answer
	rc.Finish, rc.PromptTokens = a.Finish, a.Usage.Prompt
	j.count(a.Usage.Completion)
	x.close(nil, a.Usage.Completion)
	j.ask.Tap.Body(x.whole)
	j.ask.Tap.End(openai.Ending{Usage: a.Usage})
	out := openai.Rewrite(make([]byte, 0, len(x.whole)+256), x.whole, a.Model, a.End, j.route.Model, rc.Extra())
	if err := j.sink.Begin(Head{Receipt: rc, Length: int64(len(out))}); err != nil {
		return err
	}
	return j.sink.Write(out)
}

// count books the answer's tokens to the tier that made them.
func (j *job) count(tokens int) {
	if j.receipt.Tier == plan.Draft {
		j.receipt.AcceptedTokens = tokens
	} else {
		j.receipt.TargetTokens = tokens
	}
}

// relayStream passes a stream on frame by frame, one write for each upstream
// read.
func (j *job) relayStream(ctx context.Context, x *exchange) error {
	if err := j.sink.Begin(Head{Stream: true, Receipt: j.receipt}); err != nil {
		x.close(nil, 0)
		return err
	}
	s := relay{job: j, rich: j.ask.Request.N > 1, keeps: j.cfg.Takeover && plan.CarriesOn(j.ask.Request)}
	moves := s.keeps && !s.rich
	x.moves(moves)
	for over := false; !over; {
		raw, chunk, err := x.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			f := err.(*engine.Failure) // next returns nothing else
			s.estimate()
			x.close(f, s.frames)
			switch {
			case x.finishes.all():
				s.close() // all but its usage has come
				over = true
				continue
			case s.keeps && !s.rich && j.mayTakeOver(f):
				return s.takeOver(ctx, x)
			default:
				return &BrokenError{f}
			}
		}
		if s.pass(raw, chunk); moves && (s.rich || !s.keeps) {
			s.keeps, moves = false, false
			x.moves(false) // nobody can carry on with that
		}
		if x.buffered() {
			continue
		}
		if err := s.write(); err != nil {
			s.estimate()
			x.close(nil, s.frames)
			return err
		}
	}
	x.close(nil, j.receipt.AcceptedTokens+j.receipt.TargetTokens)
	s.last(j.receipt.Extra())
	j.ask.Tap.End(s.ending())
	return s.write()
}

// relay rewrites the frames of one stream. A frame that may be the last waits
// for the usage behind it, which the extra object tells.
type relay struct {
	job    *job
	out    []byte
	held   []byte // a frame's JSON, waiting
	model  openai.Span
	end    int
	frames int // that held text, one for each choice

	keeps bool   // another backend may carry on if this one is lost
	text  []byte // of the answer, where keeps
	ends  []int  // where in it each frame ended
	named []byte // a frame's JSON, from which the rest takes its name
	rich  bool   // there is more than the text of one choice
	stop  []byte // stop_reason as raw JSON
}

// tell has the tap hear a frame.
func (s *relay) tell(raw []byte, c *openai.Chunk) {
	switch s.rich = s.rich || !c.Plain || c.Foreign || c.Choices > 1; {
	case c.Choices == 0 && !c.Foreign: // the usage comes with the end
	case s.rich:
		s.job.ask.Tap.Chunk(raw)
	default:
		s.job.ask.Tap.Text(c.Text)
		s.stop = append(s.stop[:0], c.Stop...)
		if s.keeps && int64(len(s.text)+len(c.Text)) > s.job.cascade.mostBody {
			s.keeps, s.text, s.ends = false, nil, nil
		}
		if s.keeps && len(c.Text) > 0 {
			s.text = append(s.text, c.Text...)
			s.ends = append(s.ends, len(s.text))
		}
	}
}

// ending is how the stream ended.
func (s *relay) ending() openai.Ending {
	rc := s.job.receipt
	return openai.Ending{
		Finish: rc.Finish, Stop: s.stop, Usage: openai.Usage{Prompt: rc.PromptTokens, Completion: rc.AcceptedTokens + rc.TargetTokens},
	}
}

// pass takes in one frame. The usage frame stays here when only the gateway
// asked for it.
func (s *relay) pass(raw []byte, c *openai.Chunk) {
	rc := s.job.receipt
	if len(c.Text) > 0 {
		s.frames += c.Choices
	}
	if c.HasUsage {
		rc.PromptTokens = c.Usage.Prompt
		s.job.count(c.Usage.Completion)
	}
	if len(c.Finish) > 0 {
		rc.Finish = string(c.Finish)
	}
	s.tell(raw, c)
	if s.named == nil && (s.keeps || s.job.ask.Request.IncludeUsage) {
		s.named = append(make([]byte, 0, len(raw)), raw...)
	}
	if c.HasUsage && c.Choices == 0 && !s.job.ask.Request.IncludeUsage {
		return
	}
	s.flushHeld(nil)
	if len(c.Finish) > 0 || c.Choices == 0 {
		s.held = append(s.held, raw...)
		s.model, s.end = c.Model, c.Close
		return
	}
	s.frame(raw, c.Model, c.Close, nil)
}

// last adds the extra object to the last frame, and the terminator.
func (s *relay) last(extra []byte) {
	s.flushHeld(extra)
	s.out = append(s.out, "data: "+openai.Done+"\n\n"...)
}

func (s *relay) flushHeld(extra []byte) {
	if len(s.held) > 0 {
		s.frame(s.held, s.model, s.end, extra)
		s.held = s.held[:0]
	}
}

func (s *relay) frame(raw []byte, model openai.Span, end int, extra []byte) {
	s.out = append(s.out, "data: "...)
	for i := bytes.IndexByte(raw, '\n'); i >= 0; i = bytes.IndexByte(raw, '\n') {
		raw[i] = ' ' // of an event of several lines; inside a JSON string it cannot be
	}
	s.out = openai.Rewrite(s.out, raw, model, end, s.job.route.Model, extra)
	s.out = append(s.out, "\n\n"...)
}

// close tells the usage of an answer whose own came too late.
func (s *relay) close() {
	j := s.job
	if j.receipt.PromptTokens == 0 {
		j.receipt.PromptTokens = j.ask.Request.PromptTokens // as estimated
	}
	if !j.ask.Request.IncludeUsage {
		return
	}
	s.flushHeld(nil)
	id, created := openai.Named(s.named)
	s.held = openai.NewFramerAs(j.ask.Request.Kind, id, j.route.Model, created).UsageChunk(s.ending().Usage)
	s.model, s.end = openai.Span{}, len(s.held)-1
}

// estimate counts a frame for a token where a stream broke off before its usage
// came.
func (s *relay) estimate() {
	if rc := s.job.receipt; rc.AcceptedTokens+rc.TargetTokens == 0 {
		s.job.count(s.frames)
	}
}

func (s *relay) write() error {
	if len(s.out) == 0 {
		return nil
	}
	err := s.job.sink.Write(s.out)
	s.out = s.out[:0]
	return err
}
