// Package evidence stores the results of audits for all replicas together: the states of package risk, in
// Redis. Scripts (open.lua, close.lua, warmup.lua, prior.lua with state.lua) change them in the same way as
// risk.State. Without a Redis they are stored in this process.
//
// Start at [Store]. Requests read views, which are at most a second old; audits are opened and closed in the
// background. While Redis is unavailable no audit can be opened, and the last views stay valid for
// [Options.Stale].
//
// # What can go wrong
//
// If the close of an audit is lost, on its way or by a failover, the audit stays bad. A close of an unknown
// audit (closed before, lost by a failover, from before an alarm) changes nothing. If Redis comes back empty,
// or holds foreign values, there is no evidence: no draft is served until new audits have certified it. No
// error can make the evidence better than it is.
//
// # What is kept
//
// One hash per kind of request (keys.go), with the state (about 2 kB) and one field for each audit in
// progress; an index of these hashes; a log of the last 40,000 openings and closings ([Store.Log]); and the
// fitted scores of the routes ([Store.Refits]).
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

// Options configure a [Store]. Redis must have ContextTimeoutEnabled, otherwise a frozen one delays a call by
// the client's own timeout; and no retries, otherwise an audit may be sent twice, and the second is refused
// as another audit of the same name.
type Options struct {
	Redis      redis.UniversalClient            // nil: stored in this process
	Rule       func(route string) risk.Rule     // live
	Stale      func(route string) time.Duration // live: how long a view is valid while Redis is unavailable; nil is a minute
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// callTime bounds one exchange with Redis. A caller that leaves does not cancel it: the client would close
// the connection, and the script might run anyway.
const callTime = time.Second

// Store holds the results of audits. Its methods are safe for concurrent use.
type Store struct {
	opts     Options
	scripts  *script.Runner // nil without Redis
	now      func() time.Time
	patience time.Duration // bounds an exchange with Redis
	metrics  *metrics
	health   *health
	views    views
	drafted  drafted
	listed   atomic.Pointer[listing] // nil until Redis was read
	local    *local                  // nil with a Redis
}

// New returns an empty store. Without [Store.Run] views are not updated.
func New(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Stale == nil {
		o.Stale = func(string) time.Duration { return time.Minute }
	}
	m := newMetrics(o.Registerer)
	b := &Store{opts: o, now: o.Now, patience: callTime, metrics: m, health: &health{log: o.Logger, now: o.Now, errors: m.errors}}
	if o.Redis == nil {
		b.local = &local{now: o.Now}
	} else {
		b.scripts = script.NewRunner(o.Redis, openScript, closeScript, warmupScript, priorScript, forgetScript, refitScript)
	}
	return b
}

// ErrAway means that Redis did not answer, or answered with an error: the audit was not opened, or not
// closed. If that is unknown, the audit stays bad.
var ErrAway = errors.New("evidence: Redis does not answer")
