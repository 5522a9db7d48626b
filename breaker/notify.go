package breaker

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/panics"
)

const (
	// A subscription is silent for silence at most before it is asked to answer, and is
	// given up after maxSilences without one: go-redis' own check looks at writes alone and
	// stays deaf for ever (reliability.md §3.4). It is given up, too, when this replica's
	// own beat did not come back for maxBeatAge: then it is connected to a Redis that others
	// do not write to.
	silence     = 300 * time.Millisecond
	maxSilences = 3
	maxBeatAge  = 2 * time.Second
	// resubscribe is the pause before the next subscription.
	resubscribe = 250 * time.Millisecond
)

// beatPrefix begins a message that is a replica's beat, and no transition.
const beatPrefix = "beat "

// subscriber listens for words of transitions. They only say that it is time to read: whatever is
// in one is not believed, and one that is lost is made up for by reading all the time.
type subscriber struct {
	link *link
	beat string // this replica's

	wake      chan struct{} // a tick is wanted now
	notified  atomic.Bool   // and is to read everything
	connected atomic.Bool   // words do arrive
}

func newSubscriber(l *link, replica string) *subscriber {
	return &subscriber{link: l, beat: beatPrefix + replica, wake: make(chan struct{}, 1)}
}

// wakeUp has a tick follow at once.
func (e *subscriber) wakeUp() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// notify has a tick follow at once that reads everything.
func (e *subscriber) notify() {
	e.notified.Store(true)
	e.wakeUp()
}

// listen keeps a subscription until ctx ends.
func (e *subscriber) listen(ctx context.Context) {
	for ctx.Err() == nil {
		e.subscribe(ctx)
		e.connected.Store(false)
		sleep(ctx, resubscribe/2+rand.N(resubscribe))
	}
}

// subscribe hears until the subscription fails, is deaf, or brings what the client panics
// at. Each has a connection of its own, and so asks anew who the master is.
func (e *subscriber) subscribe(ctx context.Context) {
	defer panics.Recover(ctx)
	sub := e.link.redis.Subscribe(ctx, channelEvents)
	defer func() { _ = sub.Close() }() // nothing is owed to it
	silences, back := 0, time.Now()
	for ctx.Err() == nil && silences < maxSilences && time.Since(back) < maxBeatAge {
		got, err := sub.ReceiveTimeout(ctx, silence)
		if err != nil {
			silences++
			if !late(err) || sub.Ping(ctx) != nil {
				return
			}
			continue
		}
		silences = 0
		switch m := got.(type) {
		case *redis.Subscription:
			e.notify() // what was said before is lost
		case *redis.Message:
			switch {
			case m.Payload == e.beat:
				back = time.Now()
				e.connected.Store(true)
			case !strings.HasPrefix(m.Payload, beatPrefix):
				e.notify()
			}
		}
	}
}

// late reports whether nothing came in time, which breaks no connection.
func late(err error) bool {
	slow, ok := errors.AsType[net.Error](err)
	return ok && slow.Timeout()
}
