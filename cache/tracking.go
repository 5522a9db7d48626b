package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"
)

const (
	// pingEvery is how often invalidations are read; they are heard so much later at most, and a
	// connection that says nothing is given up long before a copy's second is over.
	pingEvery = 100 * time.Millisecond
	// subscribeAgain is the pause after a subscription that was lost, and refusedPause that after one
	// that Redis refused: it is too old, or its ACL does not let us.
	subscribeAgain = 500 * time.Millisecond
	refusedPause   = 30 * time.Second
)

// Tracked makes a client's options those of [Options.Tracking]: one connection that speaks RESP3, to one node, on which
// nothing is sent twice. Its user needs +client|tracking and +ping.
func Tracked(o *redis.UniversalOptions) {
	o.Protocol = 3
	o.PoolSize, o.MinIdleConns, o.MaxActiveConns = 1, 0, 2
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.PipelinePoolSize = -1
}

// trackPrefixes are those of entries, whose names go on with a digit in hexadecimal. So nothing is heard
// of leases, which change far more often.
func trackPrefixes() []any {
	args := []any{"CLIENT", "TRACKING", "ON", "BCAST"}
	for _, digit := range "0123456789abcdef" {
		args = append(args, "PREFIX", keyPrefix+string(digit))
	}
	return args
}

// watchInvalidations keeps copies honest until ctx ends.
func (s *Store) watchInvalidations(ctx context.Context) {
	told := false
	for ctx.Err() == nil {
		err := s.subscribe(ctx)
		s.local.lost()
		pause := subscribeAgain
		if _, refused := errors.AsType[refusedError](err); refused {
			pause = refusedPause
			if !told {
				told = true
				s.log.Warn().Err(err).Msg("copies of answers live for a second: Redis does not tell of changes")
			}
		}
		rest(ctx, pause)
	}
}

// rest waits, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// refusedError is Redis' own word.
type refusedError struct{ error }

// subscribe hears invalidations on a connection of its own, until that is lost or ctx ends. All that Redis told before it
// answered a PING has been read before the answer, so copies are good up to when it was sent.
func (s *Store) subscribe(ctx context.Context) error {
	conn := s.tracking.EphemeralConn() // it never dials again by itself
	defer func() { _ = conn.Close() }()
	err := conn.RegisterPushNotificationHandler("invalidate", invalidations{s.local}, false)
	if err != nil && !push.IsHandlerExistsError(err) { // the client may have kept that of the connection before
		return refusedError{fmt.Errorf("hear invalidations: %w", err)} // the client speaks RESP2
	}
	err = inBackground(ctx, func(ctx context.Context) error { return conn.Do(ctx, trackPrefixes()...).Err() })
	if _, isReply := errors.AsType[redis.Error](err); isReply {
		return refusedError{err}
	}
	for err == nil && ctx.Err() == nil {
		asked := s.now()
		if err = inBackground(ctx, func(ctx context.Context) error { return conn.Ping(ctx).Err() }); err == nil {
			s.local.heard(asked)
			rest(ctx, pingEvery)
		}
	}
	return err
}

// invalidations are passed on to the copies.
type invalidations struct{ local *local }

// HandlePushNotification reads ["invalidate", [key, …]], or null in place of the keys where all are gone. What it does
// not understand it takes for that.
func (i invalidations) HandlePushNotification(_ context.Context, _ push.NotificationHandlerContext, n []any) error {
	var keys []any
	isList := false
	if len(n) == 2 {
		keys, isList = n[1].([]any)
	}
	if !isList {
		i.local.forgetAll()
		return nil
	}
	for _, key := range keys {
		name, isName := key.(string)
		if !isName {
			i.local.forgetAll()
			return nil
		}
		i.local.forget(name)
	}
	return nil
}
