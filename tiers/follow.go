package tiers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/openai"
)

// coalesceTimeout is how long a request waits for an identical one before it goes to a backend itself.
const coalesceTimeout = time.Minute

// follower is a request that waits for the answer that an identical one makes.
type follower struct {
	*request
	subscriber *subscriber
	framer     *openai.Framer // of its client's stream; nil before it has begun
	buf        []byte
}

// share answers a request that has subscribed to a generation.
func (rq *request) share(ctx context.Context, s *subscriber) error {
	stop := rq.World.OnCancel(ctx, s.Depart)
	defer stop()
	defer s.Depart()
	if s.leads {
		return rq.lead(ctx, s)
	}
	f := &follower{request: rq, subscriber: s}
	deadline := rq.World.Now().Add(coalesceTimeout)
	for {
		switch text, entry, err := s.next(ctx, deadline); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case text != nil:
			if err := f.text(text); err != nil {
				return err
			}
		case err == nil:
			return f.complete(ctx, entry)
		default:
			return f.fail(ctx, err)
		}
	}
}

// text sends the client more of a stream.
func (f *follower) text(text []byte) error {
	if err := f.begin(); err != nil {
		return err
	}
	f.buf = f.framer.Text(f.buf, text)
	err := f.client.Write(f.buf)
	f.buf = f.buf[:0]
	return err
}

// begin opens a stream. Its source is known only at its end.
func (f *follower) begin() error {
	if f.framer != nil {
		return nil
	}
	f.record.Cache = cache.ResultCoalesced
	f.framer = openai.NewFramer(f.Body.Kind, f.ID, f.Body.Model, f.World.Now().Unix())
	f.buf = f.framer.Role(f.buf)
	return f.client.Begin(ResponseHead{Stream: true})
}

// complete sends the client the answer, or the rest of it.
func (f *follower) complete(ctx context.Context, e *cache.Entry) error {
	if f.framer == nil {
		if served, err := f.serve(e, cache.ResultCoalesced); served {
			return err
		}
		return f.generateAlone(ctx, cache.ResultError)
	}
	whole, err := openai.ParseWhole(e.Answer)
	if err != nil { // not reached: it was made in this process
		return &BrokenError{Cause: err}
	}
	f.record.Entry = e
	f.count(cache.ResultCoalesced, e)
	whole.Usage.Cached = whole.Usage.Prompt
	whole.Choices[0].Text = whole.Choices[0].Text[len(f.subscriber.sent):]
	role := len(f.framer.Role(nil))
	frames := f.framer.WholeStream(nil, whole, extraOf(e, cache.ResultCoalesced, 0), f.Body.IncludeUsage)
	return f.client.Write(frames[role:])
}

// fail ends a request whose generation failed. If it has sent nothing yet, it generates alone where the fault is not the
// answer's.
func (f *follower) fail(ctx context.Context, err error) error {
	alone := errors.Is(err, ErrNotShareable) || errors.Is(err, ErrPanicked) || errors.Is(err, errLate)
	if alone && f.framer == nil {
		f.subscriber.Depart()
		return f.generateAlone(ctx, cache.ResultMiss)
	}
	f.count(cache.ResultCoalesced, nil)
	if f.framer != nil {
		return &BrokenError{Cause: err}
	}
	return fmt.Errorf("shared with an identical request: %w", err)
}

// lead makes the answer of a shared generation, unless it is cached by now. It continues without the client of ctx while a
// subscriber wants it. The subscribers get its result.
func (rq *request) lead(ctx context.Context, s *subscriber) (err error) {
	defer func() {
		if v := recover(); v != nil {
			rq.p.o.OnPanic(rq.ID, v)
			s.fail(ErrPanicked)
			err = ErrPanicked
		}
	}()
	e, result := rq.lookUp(ctx)
	if e != nil {
		if served, err := rq.serve(e, cache.ResultHit); served {
			s.complete(e, nil)
			return err
		}
		result = cache.ResultError
	}
	rq.record.Cache = result
	to := &leaderSink{Sink: rq.client, subscriber: s}
	err = rq.generateShared(ctx, s, to)
	rq.count(result, nil)
	if left := cmp.Or(to.err, ctx.Err()); err == nil {
		err = left // others have its answer
	}
	return err
}

// generateShared lets the cascade answer for all subscribers.
func (rq *request) generateShared(ctx context.Context, s *subscriber, to *leaderSink) error {
	making, cancel := rq.World.WithCancel(rq.p.o.Base)
	defer cancel(nil)
	s.begin(cancel)
	g := rq.newGeneration()
	observer := &publisher{recorder: &g.recorder, generation: s.sharedGeneration, max: rq.maxAnswer()}
	err := rq.run(ctx, making, call{
		Delivery: Delivery{Sink: to, Observer: observer, Confirmation: g.awaits()},
		alone:    func() { s.fail(ErrNotShareable) }, // the others ask for themselves
	})
	if err != nil {
		s.fail(err)
		return err
	}
	e, whole := g.recorder.entry(rq.Receipt, rq.World.Now())
	if e == nil {
		s.fail(ErrNotShareable)
		return nil
	}
	g.settle(e, whole, s.complete)
	return nil
}

// publisher records an answer and sends it to the subscribers.
type publisher struct {
	*recorder
	generation *sharedGeneration
	max        int // maximum text for the subscribers, in bytes
	sent       int
}

var _ Observer = (*publisher)(nil)

// Text implements Observer.
func (p *publisher) Text(text []byte) {
	p.recorder.Text(text)
	if len(text) == 0 {
		return
	}
	if p.sent += len(text); p.sent > p.max {
		p.generation.setOpaque() // no subscriber keeps more than that
		return
	}
	p.generation.append(text)
}

// Chunk implements Observer.
func (p *publisher) Chunk(chunk []byte) {
	p.recorder.Chunk(chunk)
	p.generation.setOpaque()
}

// leaderSink writes to the leader's client. If that disconnects, the answer continues without it while another request wants
// it, too.
type leaderSink struct {
	Sink
	subscriber *subscriber
	err        error // of the client
}

// Write implements Sink.
func (s *leaderSink) Write(p []byte) error {
	if s.err == nil {
		s.err = s.Sink.Write(p)
	}
	if s.err != nil && !s.subscriber.isShared() {
		return s.err
	}
	return nil
}
