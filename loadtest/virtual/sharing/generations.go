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
// told in another replica than the one that makes the answer takes two hops, by way of Redis. Without the way to Redis
// a replica joins its own requests alone; those that follow another replica at that moment go on.
type Generations struct {
	link   *Link
	joined *cache.Generations
	own    map[int]*cache.Generations // by replica, of the times without Redis
	makers map[place]*maker
}

// place is where a generation is joined.
type place struct {
	replica int // everybody for all of them
	id      cache.GenerationID
}

const everybody = -1

// maker is the replica that makes an answer.
type maker struct{ replica, subscribers int }

// NewGenerations has no generation under way.
func NewGenerations(link *Link) *Generations {
	return &Generations{link: link, makers: map[place]*maker{}, own: map[int]*cache.Generations{}, joined: newGenerations(link.Loop)}
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

// place is where a replica joins a generation: with all others, or without Redis by itself. What it makes already
// it goes on with.
func (r ofReplica) place(id cache.GenerationID) place {
	all, own := place{everybody, id}, place{r.replica, id}
	switch m := r.makers[all]; {
	case r.makers[own] != nil:
		return own
	case !r.link.Away(), m != nil && m.replica == r.replica:
		return all
	}
	return own
}

// at are the generations of a place.
func (g *Generations) at(p place) *cache.Generations {
	if p.replica == everybody {
		return g.joined
	}
	if g.own[p.replica] == nil {
		g.own[p.replica] = newGenerations(g.link.Loop)
	}
	return g.own[p.replica]
}

// Join implements [pipeline.Generations].
func (r ofReplica) Join(id cache.GenerationID) pipeline.Subscriber {
	p := r.place(id)
	s := pipeline.Shared(r.at(p)).Join(id)
	if s == nil {
		return nil
	}
	m := r.makers[p]
	if m == nil {
		m = &maker{replica: r.replica}
		r.makers[p] = m
	}
	m.subscribers++
	return &subscriber{Subscriber: s, of: r, place: p, maker: m}
}

// subscriber is one request's part in a generation.
type subscriber struct {
	pipeline.Subscriber
	of      ofReplica
	place   place
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
		err = s.of.link.Loop.Sleep(ctx, 2*engines.Hop)
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
	if s.maker.subscribers--; s.maker.subscribers == 0 && s.of.makers[s.place] == s.maker {
		delete(s.of.makers, s.place)
	}
}
