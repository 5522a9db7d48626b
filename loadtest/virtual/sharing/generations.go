package sharing

import (
	"context"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/pipeline"
	"github.com/foregate/foregate/loadtest/virtual/engines"
	"github.com/foregate/foregate/loadtest/virtual/eventloop"
)

// Generations join identical requests of all replicas by the gateway's own code: to it they are one replica. What is
// told in another replica than the one that makes the answer takes two hops, by way of Redis.
type Generations struct {
	Away bool // Redis is not reached: a replica joins its own alone

	loop   *eventloop.Loop
	joined *cache.Generations
	own    map[int]*cache.Generations // by replica, of the times without Redis
	makers map[cache.GenerationID]*maker
}

// maker is the replica that makes an answer.
type maker struct{ replica, subscribers int }

// NewGenerations has no generation under way.
func NewGenerations(loop *eventloop.Loop) *Generations {
	return &Generations{
		loop: loop, makers: map[cache.GenerationID]*maker{}, own: map[int]*cache.Generations{}, joined: newGenerations(loop),
	}
}

func newGenerations(loop *eventloop.Loop) *cache.Generations {
	return cache.NewGenerations(cache.GenerationOptions{World: loop, MaxEntry: func() int { return cache.MinSharedBytes }})
}

// Of are the generations as a replica joins them.
func (g *Generations) Of(replica int) pipeline.Generations { return ofReplica{g, replica} }

type ofReplica struct {
	*Generations
	replica int
}

// Join implements [pipeline.Generations].
func (r ofReplica) Join(id cache.GenerationID) pipeline.Subscriber {
	if r.Away {
		if r.own[r.replica] == nil {
			r.own[r.replica] = newGenerations(r.loop)
		}
		return pipeline.Shared(r.own[r.replica]).Join(id)
	}
	s := pipeline.Shared(r.joined).Join(id)
	if s == nil {
		return nil
	}
	m := r.makers[id]
	if m == nil {
		m = &maker{}
		r.makers[id] = m
	}
	m.subscribers++
	return &subscriber{Subscriber: s, of: r, id: id, maker: m}
}

// subscriber is one request's part in a generation.
type subscriber struct {
	pipeline.Subscriber
	of      ofReplica
	id      cache.GenerationID
	maker   *maker
	hasLeft bool
}

// Next implements [pipeline.Subscriber].
func (s *subscriber) Next(ctx context.Context, deadline time.Time) (cache.Event, error) {
	e, err := s.Subscriber.Next(ctx, deadline)
	switch {
	case err != nil || e.Kind == cache.EventAlone:
	case e.Kind == cache.EventLead:
		s.maker.replica = s.of.replica
	case s.maker.replica != s.of.replica:
		err = s.of.loop.Sleep(ctx, 2*engines.Hop)
	}
	return e, err
}

// Depart implements [pipeline.Subscriber].
func (s *subscriber) Depart() {
	s.Subscriber.Depart()
	if s.hasLeft {
		return
	}
	s.hasLeft = true
	if s.maker.subscribers--; s.maker.subscribers == 0 && s.of.makers[s.id] == s.maker {
		delete(s.of.makers, s.id)
	}
}
