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
			q.p.o.Panicked(q.ID, v)
			l.Fail(ErrPanicked, false)
			err = ErrPanicked
		}
	}()
	l.Begin(cancel)
	g := q.newGeneration()
	rc, err := q.ask(ctx, making, call{
		to: to, tap: &telling{recording: g.recording, leader: l, max: q.maxAnswer()}, said: l.Said(), vouched: g.vouching(),
	})
	if err != nil {
		l.Fail(err, q.p.o.Hopeless(err))
		return err
	}
	e, whole := g.recording.entry(rc, q.p.o.World.Now())
	if e == nil {
		l.Fail(ErrNotShareable, true)
		return nil
	}
	g.settle(e, whole, l.Complete)
	return nil
}

// telling takes an answer down and tells the subscribers of it.
type telling struct {
	*recording
	leader *cache.Leader
	max    int // bytes of text that are told
	told   int
}

var _ strategy.Observer = (*telling)(nil)

// Text implements strategy.Observer.
func (t *telling) Text(text []byte) {
	t.recording.Text(text)
	if len(text) == 0 {
		return
	}
	if t.told += len(text); t.told > t.max {
		t.leader.Opaque() // nobody holds more than that for others
		return
	}
	t.leader.Append(text)
}

// Chunk implements strategy.Observer.
func (t *telling) Chunk(chunk []byte) {
	t.recording.Chunk(chunk)
	t.leader.Opaque()
}

// leaderSink writes to the leader's client. Once somebody else wants the answer, too, nobody waits for that client any
// more: what it does not take is held for it, and if it is gone the answer goes on without it.
type leaderSink struct {
	sink
	leader     *cache.Leader
	subscriber Subscriber

	detached Detached // nil: the client is waited for
	gone     error    // why the client took no more before it was detached
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
