package pipeline

import (
	"context"
	"time"

	"github.com/foregate/foregate/cache"
)

// Generations joins identical requests in progress. [Shared] makes it from [cache.Generations].
type Generations interface {
	// Join subscribes to the generation that these requests share, nil if it has too many subscribers. The
	// first subscriber leads.
	Join(id cache.GenerationID) Subscriber
}

// Subscriber is one request's part in a shared generation; [cache.Subscriber] is one. Only one goroutine may
// use it, except for Depart, which may be called again.
type Subscriber interface {
	// Next waits for the next event. If none has come by the deadline, it returns [cache.EventAlone]. The
	// error is the context's cause.
	Next(ctx context.Context, deadline time.Time) (cache.Event, error)
	// Sent is the text that the subscriber has received.
	Sent() []byte
	// Shared reports whether another request wants the answer.
	Shared() bool
	// Depart unsubscribes. If no other request wants the answer, its generation is cancelled.
	Depart()
}

// Shared adapts the cache's generations; nil shares none.
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
