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

// Subscriber is one request's part in a shared generation; [cache.Subscriber] is one. It is used by one goroutine, but for
// Depart, which may be called again.
type Subscriber interface {
	// Next waits for the next event, until the deadline where nothing has come yet: then it is [cache.EventAlone]. The
	// error is the context's cause.
	Next(ctx context.Context, deadline time.Time) (cache.Event, error)
	// Sent is the text that the subscriber was given so far.
	Sent() []byte
	// Shared reports whether anybody else wants the answer.
	Shared() bool
	// Depart unsubscribes. Where nobody else wants the answer, its generation is cancelled.
	Depart()
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
		return of
	}
	return nil
}
