package pipeline

import (
	"context"

	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/strategy"
)

// lead makes the answer of a shared generation. It continues without the client of ctx while a subscriber
// wants it. The subscribers get its result.
func (q *request) lead(ctx context.Context, l *leader, to tiers.Sink) (err error) {
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
	alone, _ := to.(*leaderSink)
	rc, err := q.runCascade(ctx, making, cascadeCall{
		sink: to, observer: &publisher{recorder: &g.recorder, leader: l, max: q.maxAnswer()}, sentPrefix: l.Sent(), confirmation: g.awaits(),
		leave: leaveAlone{l, alone}.begin,
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

// leaveAlone is a leader that may go on to a fallback.
type leaveAlone struct {
	leader *leader
	client *leaderSink // nil: it leads for the clients of others, who have a part of another answer
}

// begin ends the shared generation: the others ask for themselves. It returns the sink of the leader's own client, nil if
// it leads for others.
func (a leaveAlone) begin() tiers.Sink {
	if a.client == nil {
		return nil
	}
	a.leader.Fail(ErrNotShareable, true)
	return &a.client.sink
}

// publisher records an answer and sends it to the subscribers.
type publisher struct {
	*recorder
	leader *leader
	max    int // maximum text for the subscribers, in bytes
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
		t.leader.Opaque() // no subscriber keeps more than that
		return
	}
	t.leader.Append(text)
}

// Chunk implements strategy.Observer.
func (t *publisher) Chunk(chunk []byte) {
	t.recorder.Chunk(chunk)
	t.leader.Opaque()
}

// leaderSink writes to the leader's client. As soon as another request wants the answer, too, the generation
// no longer waits for that client: pending bytes are queued, and if the client disconnects, the answer
// continues without it.
type leaderSink struct {
	sink
	subscriber *subscriber

	detached  AsyncClient // nil: writes wait for the client
	clientErr error       // the client's error before it was detached
}

var _ tiers.Sink = (*leaderSink)(nil)

// Write implements tiers.Sink.
func (s *leaderSink) Write(p []byte) error {
	switch {
	case s.clientErr != nil:
		return nil
	case s.detached == nil && !s.subscriber.Shared():
		err := s.sink.Write(p)
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
