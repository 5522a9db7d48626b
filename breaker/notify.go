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

	"github.com/foregate/foregate/internal/panics"
)

const (
	// A subscription without messages for silence is pinged. After maxSilences without an answer it is
	// replaced. go-redis' own health check detects only write errors: on a connection whose packets are
	// dropped it had not noticed after 75 s (measured, v9.23). The subscription is also replaced if this
	// replica's own heartbeat does not return for maxBeatAge: then it reads a Redis that others do not write
	// to.
	silence     = 300 * time.Millisecond
	maxSilences = 3
	maxBeatAge  = 2 * time.Second
	// resubscribe is the pause before the next subscription.
	resubscribe = 250 * time.Millisecond
)

// beatPrefix begins the message of a replica's heartbeat.
const beatPrefix = "beat "

// subscriber listens for messages about transitions. A message only triggers a read: its content is not used,
// and a lost one does no harm, because all breakers are also read periodically.
type subscriber struct {
	link *link
	beat string // this replica's heartbeat

	wake      chan struct{} // requests a tick now
	notified  atomic.Bool   // the tick must read everything
	connected atomic.Bool   // messages arrive
}

func newSubscriber(l *link, replica string) *subscriber {
	return &subscriber{link: l, beat: beatPrefix + replica, wake: make(chan struct{}, 1)}
}

// wakeUp requests a tick now.
func (e *subscriber) wakeUp() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// notify requests a tick now that reads everything.
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

// subscribe listens until the subscription fails, is silent, or the client panics on a message. Each
// subscription has a new connection, and so finds the current master.
func (e *subscriber) subscribe(ctx context.Context) {
	defer panics.Recover(ctx)
	sub := e.link.redis.Subscribe(ctx, channelEvents)
	defer func() { _ = sub.Close() }() // nothing depends on its result
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
			e.notify() // earlier messages may be lost
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

// late reports whether nothing arrived in time, which is no connection error.
func late(err error) bool {
	slow, ok := errors.AsType[net.Error](err)
	return ok && slow.Timeout()
}
