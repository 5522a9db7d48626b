package fleet

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// turn is one tick's exchange with Redis.
type turn struct {
	at    time.Time // local, before anything was sent
	pipe  redis.Pipeliner
	calls []call            // the heartbeat first
	told  map[string]string // texts, by topic and field
}

// call is one command of a round trip.
type call struct {
	cmd     redis.Cmder
	kind    string       // of its errors; "" tells none
	key     string       // of its problem in the log
	receive func() error // processes the reply; the error is a problem in it
	done    func(error)  // is called with the command's error, or the round trip's
}

// take processes the reply. err is the round trip's error, well whether the heartbeat succeeded: without it, errors of
// other commands are not told.
func (f *Fleet) take(c call, err error, well bool) {
	if err == nil {
		if err = c.cmd.Err(); errors.Is(err, redis.Nil) {
			err = nil
		}
	}
	if c.done != nil {
		c.done(err)
	}
	if err == nil && c.receive != nil {
		err = c.receive()
	}
	if well && c.kind != "" {
		f.countProblem(c.kind, c.key, err)
	}
}

// countProblem counts a problem with a key, and logs its beginning and its end. While the heartbeat fails,
// the same problem of other keys is not logged.
func (f *Fleet) countProblem(kind, key string, err error) {
	if err != nil {
		f.metrics.errors.WithLabelValues(kind).Inc()
	}
	switch what := kind + " " + key; {
	case f.heartbeatError != nil:
	case err != nil && !f.problems[what]:
		f.problems[what] = true
		f.log.Warn().Err(err).Str("key", key).Msg("fleet: a key in Redis is of no use; the rest goes on")
	case err == nil && f.problems[what]:
		delete(f.problems, what)
		f.log.Info().Str("key", key).Msg("fleet: the key in Redis is well again")
	}
}
