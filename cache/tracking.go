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
	// pingEvery is how often invalidations are read. They are noticed at most this much later, and a silent
	// connection is closed long before a copy's second is over.
	pingEvery = 100 * time.Millisecond
	// subscribeAgain is the pause after a lost subscription, and refusedPause after one that Redis refused:
	// it is too old, or its ACL forbids it.
	subscribeAgain = 500 * time.Millisecond
	refusedPause   = 30 * time.Second
)

// Tracked adapts a client's options for [Options.Tracking]: one connection with RESP3 to one node, without
// retries. Its user needs +client|tracking and +ping.
func Tracked(o *redis.UniversalOptions) {
	o.Protocol = 3
	o.PoolSize, o.MinIdleConns, o.MaxActiveConns = 1, 0, 2
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.PipelinePoolSize = -1
}

// trackPrefixes are the prefixes of entries, whose names continue with a hexadecimal digit. So there are no
// invalidations of leases, which change far more often.
func trackPrefixes() []any {
	args := []any{"CLIENT", "TRACKING", "ON", "BCAST"}
	for _, digit := range "0123456789abcdef" {
		args = append(args, "PREFIX", keyPrefix+string(digit))
	}
	return args
}

// watchInvalidations keeps copies current until ctx ends.
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

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// refusedError is an error that Redis answered.
type refusedError struct{ error }

// subscribe receives invalidations on a connection of its own, until that is lost or ctx ends. Everything
// that Redis sent before its reply to a PING has been read before the reply, so copies are current up to the
// time when the PING was sent.
func (s *Store) subscribe(ctx context.Context) error {
	conn := s.tracking.EphemeralConn() // it never reconnects by itself
	defer func() { _ = conn.Close() }()
	err := conn.RegisterPushNotificationHandler("invalidate", invalidations{s.local}, false)
	if err != nil && !push.IsHandlerExistsError(err) { // the client may have kept that of the last connection
		return refusedError{fmt.Errorf("hear invalidations: %w", err)} // the client speaks RESP2
	}
	err = inBackground(ctx, func(ctx context.Context) error { return conn.Do(ctx, trackPrefixes()...).Err() })
	if _, isReply := errors.AsType[redis.Error](err); isReply {
		return refusedError{err}
	}
	for err == nil && ctx.Err() == nil {
		requestedAt := s.now()
		if err = inBackground(ctx, func(ctx context.Context) error { return conn.Ping(ctx).Err() }); err == nil {
			s.local.confirmSubscription(requestedAt)
			rest(ctx, pingEvery)
		}
	}
	return err
}

// invalidations passes invalidations to the copies.
type invalidations struct{ local *local }

// HandlePushNotification parses ["invalidate", [key, …]], or null instead of the keys if all are invalid. It
// treats an unknown form as the latter.
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
