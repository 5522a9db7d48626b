package tiers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/world"
)

// coalesceTimeout is how long a request waits for an identical one before it goes to a backend itself.
const coalesceTimeout = time.Minute

// follower is a request that shares a generation with identical ones: one of them makes the answer, the
// others follow.
type follower struct {
	*request
	subscriber *subscriber
	framer     *openai.Framer // of its client's stream; nil before it has begun
	found      bool           // this request read the answer from the cache itself
	made       []world.Signal // ends of the generations that it started after the failure of another one
	buf        []byte
}

// follow answers a request that has subscribed to a generation.
func (rq *request) follow(ctx context.Context, s *subscriber) (err error) {
	f := &follower{request: rq, subscriber: s}
	stop := rq.World.OnCancel(ctx, s.Depart)
	defer stop()
	defer func() {
		s.Depart()
		if err != nil && len(f.made) > 0 {
			rq.client.BreakOff(err) // before the wait: the answer is now made only for others
		}
		for _, end := range f.made { // they count for this request
			_ = end.Wait(context.WithoutCancel(ctx)) // a context without cancellation
		}
	}()
	deadline := rq.World.Now().Add(coalesceTimeout)
	for {
		e, err := s.Next(ctx, deadline)
		if err != nil {
			return err
		}
		switch e.Kind {
		case eventLead:
			if over, err := f.elected(ctx, e.Leader); over {
				return err
			}
		case eventText:
			if err := f.text(e.Text); err != nil {
				return err
			}
		case eventComplete:
			return f.complete(ctx, e.Entry)
		case eventFailed:
			return f.fail(ctx, e.Err)
		case eventAlone:
			return rq.generateAlone(ctx, cache.ResultMiss)
		}
	}
}

// elected is called when this request becomes the leader. If the answer is cached by now, the request continues
// to follow.
func (f *follower) elected(ctx context.Context, l *leader) (over bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			l.Fail(ErrPanicked, false)
			panic(v)
		}
	}()
	result := cache.ResultAway
	if f.cacheable {
		var e *cache.Entry
		if e, result = f.lookUp(ctx); e != nil {
			f.found = true
			l.Complete(e, nil)
			return false, nil
		}
	}
	if f.framer != nil { // its client has received the beginning of another generation
		f.leadBeside(ctx, l)
		return false, nil
	}
	f.record.Cache = result
	to := &leaderSink{Client: f.client, subscriber: f.subscriber}
	err = f.lead(ctx, l, to)
	f.count(result, nil)
	if closeErr := cmp.Or(to.close(), ctx.Err()); err == nil {
		err = closeErr // others have its answer
	}
	return true, err
}

// leadBeside makes the answer for all followers, including this request's own client.
func (f *follower) leadBeside(ctx context.Context, l *leader) {
	end := f.World.NewSignal()
	f.made = append(f.made, end)
	f.World.Go(func() {
		defer end.Set()
		_ = f.lead(ctx, l, discard{}) // the subscribers get its error
	})
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
	f.framer = openai.NewFramer(f.Body.Kind, f.ID, f.Body.Model, f.World.Now().Unix()).WithNulls(f.Target.WritesNulls())
	f.buf = f.framer.Role(f.buf)
	return f.client.Begin(ResponseHead{Stream: true})
}

// complete sends the client the answer, or the rest of it.
func (f *follower) complete(ctx context.Context, e *cache.Entry) error {
	result := cache.ResultCoalesced
	if f.found && f.framer == nil {
		result = cache.ResultHit
	}
	if f.framer == nil {
		if served, err := f.serve(e, result); served {
			return err
		}
		return f.generateAlone(ctx, cache.ResultError)
	}
	whole, err := openai.ParseWhole(e.Answer)
	if err != nil || len(whole.Choices) != 1 || !bytes.HasPrefix(whole.Choices[0].Text, f.subscriber.Sent()) {
		return &BrokenError{Cause: ErrBroken}
	}
	if len(f.made) > 0 {
		f.count(cache.ResultMiss, nil)
	} else {
		f.record.Entry = e
		f.count(result, e)
	}
	whole.Usage.Cached = whole.Usage.Prompt
	whole.Choices[0].Text = whole.Choices[0].Text[len(f.subscriber.Sent()):]
	role := len(f.framer.Role(nil))
	frames := f.framer.WholeStream(nil, whole, extraOf(e, result, 0), f.Body.IncludeUsage)
	return f.client.Write(frames[role:])
}

// fail ends a request whose generation failed. If it has sent nothing yet, it generates alone where that may
// help.
func (f *follower) fail(ctx context.Context, err error) error {
	switch {
	case f.framer != nil:
		f.count(cache.ResultCoalesced, nil)
		return &BrokenError{Cause: err}
	case errors.Is(err, ErrNotShareable):
		return f.generateAlone(ctx, cache.ResultMiss)
	}
	f.count(cache.ResultCoalesced, nil)
	return fmt.Errorf("shared with an identical request: %w", err)
}

// lead makes the answer of a shared generation. It continues without the client of ctx while a subscriber
// wants it. The subscribers get its result.
func (rq *request) lead(ctx context.Context, l *leader, to Sink) (err error) {
	making, cancel := rq.World.WithCancel(rq.p.o.Base)
	defer cancel(nil)
	defer func() {
		if v := recover(); v != nil {
			rq.p.o.OnPanic(rq.ID, v)
			l.Fail(ErrPanicked, false)
			err = ErrPanicked
		}
	}()
	l.Begin(cancel)
	g := rq.newGeneration()
	observer := &publisher{recorder: &g.recorder, leader: l, max: rq.maxAnswer()}
	err = rq.run(ctx, making, call{Delivery{Sink: to, Observer: observer, Sent: l.Sent(), Confirmation: g.awaits()}, func() Sink {
		alone, ok := to.(*leaderSink)
		if !ok {
			return nil // it leads for the clients of others, who have a part of another answer
		}
		l.Fail(ErrNotShareable, true) // the others ask for themselves
		return alone.Client
	}})
	if err != nil {
		l.Fail(err, rq.p.o.WouldFailAgain(err))
		return err
	}
	e, whole := g.recorder.entry(rq.Receipt, rq.World.Now())
	if e == nil {
		l.Fail(ErrNotShareable, true)
		return nil
	}
	g.settle(e, whole, l.Complete)
	return nil
}

// publisher records an answer and sends it to the subscribers.
type publisher struct {
	*recorder
	leader *leader
	max    int // maximum text for the subscribers, in bytes
	sent   int
}

var _ Observer = (*publisher)(nil)

// Text implements Observer.
func (p *publisher) Text(text []byte) {
	p.recorder.Text(text)
	if len(text) == 0 {
		return
	}
	if p.sent += len(text); p.sent > p.max {
		p.leader.Opaque() // no subscriber keeps more than that
		return
	}
	p.leader.Append(text)
}

// Chunk implements Observer.
func (p *publisher) Chunk(chunk []byte) {
	p.recorder.Chunk(chunk)
	p.leader.Opaque()
}

// leaderSink writes to the leader's client. As soon as another request wants the answer, too, the generation
// no longer waits for that client: pending bytes are queued, and if the client disconnects, the answer
// continues without it.
type leaderSink struct {
	Client
	subscriber *subscriber

	detached  AsyncClient // nil: writes wait for the client
	clientErr error       // the client's error before it was detached
}

var _ Sink = (*leaderSink)(nil)

// Write implements Sink.
func (s *leaderSink) Write(p []byte) error {
	switch {
	case s.clientErr != nil:
		return nil
	case s.detached == nil && !s.subscriber.Shared():
		err := s.Client.Write(p)
		if err == nil || !s.subscriber.Shared() {
			return err
		}
		s.clientErr = err
		return nil
	case s.detached == nil:
		s.detached = s.Detach()
	}
	s.detached.Write(p)
	return nil
}

// close waits until the client has received everything, or accepts no more; then it returns the reason.
func (s *leaderSink) close() error {
	if s.detached == nil {
		return s.clientErr
	}
	return s.detached.Close()
}
