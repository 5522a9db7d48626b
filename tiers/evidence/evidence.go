// Package evidence keeps what audits have shown, for all replicas together: the states of
// package risk, in Redis, changed by scripts (open.lua, close.lua, warmup.lua, prior.lua on top of state.lua)
// that do what risk.State does. Without a Redis they are kept in this process.
//
// Start at [Store]. Requests read views, which are a second old at most; audits are opened and
// closed in the background. While Redis is away nothing can be opened, and what was served by
// goes on for [Options.Stale].
//
// # What can go wrong
//
// An audit that was opened and whose close was lost, on its way or by a failover, stays bad. A
// close whose audit is not known (closed before, lost by a failover, of a time before an alarm)
// changes nothing. A Redis that comes back empty, or that holds what is not ours, knows nothing:
// nothing is served until audits have certified it anew. None of it can make evidence better than
// it is.
//
// # What is kept
//
// One hash per kind of request (keys.go), about 2 kB of it the state and one field for each audit
// under way; an index of them; a log of the last 40,000 openings and closings ([Store.Log]); and the
// calibrated scores of the routes ([Store.SaveMap]).
package evidence

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redis/script"
	"github.com/foregate/foregate/tiers/risk"
)

// Options are what a [Store] needs to know. Redis must have ContextTimeoutEnabled, or one that is
// frozen holds a call for the client's own timeout; and no retries, or an audit may be told twice,
// of which the second is taken for another of the same name and not booked.
type Options struct {
	Redis       redis.UniversalClient            // nil: kept in this process
	Rule        func(route string) risk.Rule     // live
	Stale       func(route string) time.Duration // live: how long a view counts while Redis is away; nil is a minute
	StaleServes func(route string) bool          // live: it counts for longer, too; nil is no
	Logger      zerolog.Logger
	Registerer  prometheus.Registerer // nil registers nothing
	Now         func() time.Time      // nil is time.Now
}

// callTime is how long one exchange with Redis may take. It is never cut by a caller that leaves:
// the client would close the connection, and a script may be done all the same.
const callTime = time.Second

// Store keeps what audits have shown. Its methods are safe for concurrent use.
type Store struct {
	opts     Options
	scripts  *script.Runner // nil without Redis
	now      func() time.Time
	patience time.Duration // of an exchange with Redis
	metrics  *metrics
	health   *health
	views    views
	maps     maps
	drafted  drafted
	listed   atomic.Pointer[listing] // nil while Redis was not read
	local    *local                  // nil with a Redis
}

// New returns a store in which nothing is known. Without [Store.Run] views do not move.
func New(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Stale == nil {
		o.Stale = func(string) time.Duration { return time.Minute }
	}
	if o.StaleServes == nil {
		o.StaleServes = func(string) bool { return false }
	}
	m := newMetrics(o.Registerer)
	b := &Store{opts: o, now: o.Now, patience: callTime, metrics: m, health: &health{log: o.Logger, now: o.Now, errors: m.errors}}
	if o.Redis == nil {
		b.local = &local{now: o.Now}
	} else {
		b.scripts = script.NewRunner(o.Redis, openScript, closeScript, warmupScript, priorScript, forgetScript, mapScript)
	}
	return b
}

// ErrAway says that Redis did not answer, or with an error: the audit was not opened, or not
// closed. Where that is not known, it stays bad.
var ErrAway = errors.New("evidence: Redis does not answer")
