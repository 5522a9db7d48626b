package pipeline

import (
	"context"
	"time"

	"github.com/foregate/foregate/cache"
)

// Generations join identical requests that are under way. [Shared] makes it of [cache.Generations].
type Generations interface {
	// Join subscribes to the generation that such requests share, nil where too many have. The first subscriber leads.
	Join(id cache.GenerationID) Subscriber
}

// Subscriber is one request's part in a shared generation. It is used by one goroutine, but for Leave, which may be
// called again.
type Subscriber interface {
	// Next waits for the next event, until the deadline where nothing has come yet: then it is [cache.EventAlone]. The
	// error is the context's cause.
	Next(ctx context.Context, deadline time.Time) (Event, error)
	// Sent is the text that the subscriber was given so far.
	Sent() []byte
	// Shared reports whether anybody else wants the answer.
	Shared() bool
	// Depart unsubscribes. Where nobody else wants the answer, its generation is cancelled.
	Depart()
}

// Event is what a subscriber is to do next, with what belongs to it.
type Event struct {
	Kind   cache.EventKind
	Leader Leader       // EventLead: make the answer
	Text   []byte       // EventText: there is more; not to be changed
	Entry  *cache.Entry // EventComplete: the answer is whole; not to be changed
	Err    error        // EventFailed: there is none
}

// Leader is the task to make a shared generation's answer. It is ended by Complete, Fail or Follow. It also ends where it
// turns out late that another replica leads and nobody was told anything yet: then the generation is cancelled
// with [cache.ErrFollows].
type Leader interface {
	// Said is the text that an attempt before this one had come to, and that clients may have; not to be changed.
	Said() []byte
	// Lease is what a look-up elects a leader among the replicas by; nil elects none.
	Lease() *cache.Lease
	// Follow has the generation follow another replica's. It is false where no other leads, or it cannot be followed.
	Follow() bool
	// Begin says that the answer is being made; cancel ends that.
	Begin(cancel context.CancelCauseFunc)
	// Claim says that somebody is about to be told of the answer. It is false where another replica makes it by now:
	// then nothing may be told.
	Claim() bool
	// Append tells the subscribers of more text.
	Append(text []byte)
	// Opaque says that the answer is more than text: nothing more of it can be told before it is whole.
	Opaque()
	// Complete gives all subscribers the answer. keep stores it and calls then when that is done; nil is not to be stored.
	Complete(e *cache.Entry, keep func(then func()))
	// Fail says that the answer could not be made. Another subscriber tries again, once, unless that is hopeless.
	Fail(err error, hopeless bool)
	// Follows reports whether another replica's answer is the generation's.
	Follows() bool
}

// Shared makes Generations of what the cache has; nil shares none.
func Shared(g *cache.Generations) Generations {
	if g == nil {
		return nil
	}
	return shared{g}
}

type shared struct{ *cache.Generations }

func (s shared) Join(id cache.GenerationID) Subscriber {
	if of := s.Generations.Join(id); of != nil {
		return subscriber{of}
	}
	return nil
}

type subscriber struct{ *cache.Subscriber }

func (s subscriber) Next(ctx context.Context, deadline time.Time) (Event, error) {
	n, err := s.Subscriber.Next(ctx, deadline)
	e := Event{Kind: n.Kind, Text: n.Text, Entry: n.Entry, Err: n.Err}
	if n.Leader != nil {
		e.Leader = n.Leader
	}
	return e, err
}
