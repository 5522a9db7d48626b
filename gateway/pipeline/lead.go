package pipeline

import (
	"context"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/strategy"
)

// lead makes the answer of a shared generation. It goes on without the client of ctx as long as somebody wants it; the
// subscribers hear how it ends.
func (q *request) lead(ctx context.Context, l *cache.Leader, to tiers.Sink) (err error) {
	making, cancel := q.p.o.World.WithCancel(q.p.o.Base)
	defer cancel(nil)
	defer func() {
		if v := recover(); v != nil {
			q.p.o.OnPanic(q.ID, v)
			l.Fail(ErrPanicked, false)
			err = ErrPanicked
		}
	}()
	l.Begin(cancel)
	g := q.newGeneration()
	rc, err := q.runCascade(ctx, making, cascadeCall{
		sink: to, observer: &publisher{recorder: g.recorder, leader: l, max: q.maxAnswer()}, sentPrefix: l.Sent(), onConfirmed: g.confirmFunc(),
	})
	if err != nil {
		l.Fail(err, q.p.o.WouldFailAgain(err))
		return err
	}
	e, whole := g.recorder.entry(rc, q.p.o.World.Now())
	if e == nil {
		l.Fail(ErrNotShareable, true)
		return nil
	}
	g.settle(e, whole, l.Complete)
	return nil
}

// publisher takes an answer down and tells the subscribers of it.
type publisher struct {
	*recorder
	leader *cache.Leader
	max    int // bytes of text that are told
	sent   int
}

var _ strategy.Observer = (*publisher)(nil)

// Text implements strategy.Observer.
func (t *publisher) Text(text []byte) {
	t.recorder.Text(text)
	if len(text) == 0 {
		return
	}
	if t.sent += len(text); t.sent > t.max {
		t.leader.Opaque() // nobody holds more than that for others
		return
	}
	t.leader.Append(text)
}

// Chunk implements strategy.Observer.
func (t *publisher) Chunk(chunk []byte) {
	t.recorder.Chunk(chunk)
	t.leader.Opaque()
}

// leaderSink writes to the leader's client. Once somebody else wants the answer, too, nobody waits for that client any
// more: what it does not take is held for it, and if it is gone the answer goes on without it.
type leaderSink struct {
	sink
	leader     *cache.Leader
	subscriber Subscriber

	detached AsyncClient // nil: the client is waited for
	gone     error       // why the client took no more before it was detached
}

var _ tiers.Sink = (*leaderSink)(nil)

// Begin implements tiers.Sink.
func (s *leaderSink) Begin(h tiers.Head) error {
	if !s.leader.Claim() {
		return cache.ErrFollows
	}
	return s.sink.Begin(h)
}

// Write implements tiers.Sink.
func (s *leaderSink) Write(p []byte) error {
	switch {
	case s.gone != nil:
		return nil
	case s.detached == nil && !s.subscriber.Shared():
		err := s.sink.Write(p)
		if err == nil || !s.subscriber.Shared() {
			return err
		}
		s.gone = err
		return nil
	case s.detached == nil:
		s.detached = s.Detach()
	}
	s.detached.Write(p)
	return nil
}

// close waits until the client has all, or takes no more; the error says why.
func (s *leaderSink) close() error {
	if s.detached == nil {
		return s.gone
	}
	return s.detached.Close()
}
