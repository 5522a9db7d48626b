package sharing

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/pipeline"
	"github.com/foregate/foregate/loadtest/virtual/engines"
	"github.com/foregate/foregate/loadtest/virtual/eventloop"
)

// Generations join identical requests of all replicas. What is told in another replica than the one that
// makes the answer takes two hops, by way of Redis.
type Generations struct {
	Loop *eventloop.Loop
	by   map[cache.GenerationID]*generation
}

// generation is one answer that is made for several.
type generation struct {
	all         *Generations
	id          cache.GenerationID
	subscribers []*subscriber
	maker       int  // the replica that makes the answer; -1 while nobody leads
	failed      bool // one try has
	text        []byte
	opaque      bool
	end         *pipeline.Event // how it ended; nil while it has not
	cancel      context.CancelCauseFunc
}

// Of are the generations as a replica joins them.
func (g *Generations) Of(replica int) pipeline.Generations {
	if g.by == nil {
		g.by = map[cache.GenerationID]*generation{}
	}
	return ofReplica{g, replica}
}

type ofReplica struct {
	*Generations
	replica int
}

// Join implements [pipeline.Generations].
func (r ofReplica) Join(id cache.GenerationID) pipeline.Subscriber {
	f := r.by[id]
	if f == nil {
		f = &generation{all: r.Generations, id: id, maker: -1}
		r.by[id] = f
	}
	s := &subscriber{generation: f, replica: r.replica, leads: f.maker < 0}
	if s.leads {
		f.maker = r.replica
	}
	f.subscribers = append(f.subscribers, s)
	s.knows(len(f.text))
	return s
}

// subscriber is one request's part in a generation. It leads, or follows what is made.
type subscriber struct {
	*generation
	replica int
	leads   bool // it is its turn to make the answer
	known   int  // bytes of the text that its replica has heard of
	sent    int  // of these, given
	heard   *pipeline.Event
	waiter  eventloop.Waiter
	left    bool
	pending bool // news are on their way
}

// Next implements [pipeline.Subscriber].
func (s *subscriber) Next(ctx context.Context, deadline time.Time) (pipeline.Event, error) {
	clock := s.all.Loop
	late := false
	var timer *eventloop.Timer
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for {
		switch {
		case s.leads:
			s.leads = false
			return pipeline.Event{Kind: cache.EventLead, Leader: leader{s.generation}}, nil
		case s.known > s.sent && !s.opaque && s.id.Stream:
			from := s.sent
			s.sent = s.known
			return pipeline.Event{Kind: cache.EventText, Text: s.text[from:s.sent:s.sent]}, nil
		case s.heard != nil:
			return *s.heard, nil
		case late && s.sent == 0:
			s.Depart()
			return pipeline.Event{Kind: cache.EventAlone}, nil
		}
		if timer == nil && s.sent == 0 {
			timer = clock.Timer(deadline.Sub(clock.Now()), func() { late = true; s.waiter.Wake(clock) })
		}
		if err := s.waiter.Wait(ctx, clock); err != nil {
			return pipeline.Event{}, err
		}
	}
}

// knows has the subscriber's replica know so much of the text, and the end if there is one.
func (s *subscriber) knows(text int) {
	s.known, s.heard, s.pending = text, s.end, false
	s.waiter.Wake(s.all.Loop)
}

// tell has the replicas of all subscribers hear what there is.
func (f *generation) tell() {
	for _, s := range f.subscribers {
		switch {
		case s.pending:
		case s.replica == f.maker:
			s.knows(len(f.text))
		default:
			s.pending = true
			f.all.Loop.After(2*engines.Hop, func() { s.knows(len(f.text)) })
		}
	}
}

// Sent implements [pipeline.Subscriber].
func (s *subscriber) Sent() []byte { return s.text[:s.sent:s.sent] }

// Shared implements [pipeline.Subscriber].
func (s *subscriber) Shared() bool { return len(s.subscribers) > 1 }

// Depart implements [pipeline.Subscriber].
func (s *subscriber) Depart() {
	if s.left {
		return
	}
	s.left = true
	f := s.generation
	f.subscribers = slices.DeleteFunc(f.subscribers, func(o *subscriber) bool { return o == s })
	if len(f.subscribers) > 0 || f.end != nil {
		return
	}
	f.drop()
	if f.cancel != nil {
		f.cancel(context.Canceled)
	}
}

// drop lets the next request of its kind begin anew.
func (f *generation) drop() {
	if f.all.by[f.id] == f {
		delete(f.all.by, f.id)
	}
}

// over tells all how the generation ended.
func (f *generation) over(e pipeline.Event) {
	f.end = &e
	f.drop()
	f.tell()
}

// leader is the task to make a generation's answer.
type leader struct{ *generation }

var _ pipeline.Leader = leader{}

// Said implements [pipeline.Leader].
func (l leader) Said() []byte { return l.text[:len(l.text):len(l.text)] }

// Lease implements [pipeline.Leader]: there is one leader among all replicas.
func (l leader) Lease() *cache.Lease { return nil }

// Follow implements [pipeline.Leader].
func (l leader) Follow() bool { return false }

// Follows implements [pipeline.Leader].
func (l leader) Follows() bool { return false }

// Claim implements [pipeline.Leader].
func (l leader) Claim() bool { return true }

// Begin implements [pipeline.Leader].
func (l leader) Begin(cancel context.CancelCauseFunc) {
	if l.cancel = cancel; len(l.subscribers) == 0 {
		cancel(context.Canceled)
	}
}

// Append implements [pipeline.Leader].
func (l leader) Append(text []byte) {
	if l.text = append(l.text, text...); len(l.subscribers) > 1 {
		l.tell()
	}
}

// Opaque implements [pipeline.Leader].
func (l leader) Opaque() { l.opaque = true }

// Complete implements [pipeline.Leader].
func (l leader) Complete(e *cache.Entry, keep func(then func())) {
	if keep != nil {
		keep(nil)
	}
	l.over(pipeline.Event{Kind: cache.EventComplete, Entry: e})
}

// Fail implements [pipeline.Leader].
func (l leader) Fail(err error, hopeless bool) {
	if hopeless || l.failed || len(l.subscribers) < 2 || errors.Is(err, context.Canceled) {
		l.over(pipeline.Event{Kind: cache.EventFailed, Err: err})
		return
	}
	l.failed = true
	next := l.subscribers[1] // the first is the leader that failed
	l.maker, next.leads = next.replica, true
	next.waiter.Wake(l.all.Loop)
}
