// Package evidence keeps what audits have shown, for all replicas together: the states of
// package risk, in Redis, changed by scripts (open.lua, close.lua, warmup.lua, prior.lua on top of state.lua)
// that do what risk.State does. Without a Redis they are kept in this process.
//
// Start at [Book]. Requests read views, which are a second old at most; audits are opened and
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
// under way; an index of them; a log of the last 40,000 openings and closings ([Book.Log]); and the
// calibrated scores of the routes ([Book.SaveMap]).
package evidence

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/risk"
)

// Options are what a [Book] needs to know. Redis must have ContextTimeoutEnabled, or one that is
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

// Audit is one draft that the target is about to be asked about.
type Audit struct {
	risk.Decision
	Ticket   string // names it: 1 … 64 of [A-Za-z0-9-]
	Score    float64
	Features []float64 // of the score, for [Book.Log]; at most 8
	Tokens   int       // of the draft
	Map      int       // version of the calibrated score, 0 is none
}

// mostFeatures is how many features of an audit are kept.
const mostFeatures = 8

// Book is what audits have shown. Its methods are safe for concurrent use.
type Book struct {
	opts     Options
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

// New returns a book in which nothing is known. Without [Book.Run] views do not move.
func New(o Options) *Book {
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
	b := &Book{opts: o, now: o.Now, patience: callTime, metrics: m, health: &health{log: o.Logger, now: o.Now, errors: m.errors}}
	if o.Redis == nil {
		b.local = &local{now: o.Now}
	}
	return b
}

// ErrAway says that Redis did not answer, or with an error: the audit was not opened, or not
// closed. Where that is not known, it stays bad.
var ErrAway = errors.New("evidence: Redis does not answer")

// Open books an audit as bad before anybody knows its outcome. It waits for Redis for a second at
// most, whatever becomes of ctx. An error that is not [ErrAway] is of an audit that is none.
func (b *Book) Open(ctx context.Context, a Audit) (risk.Fate, error) {
	if !ticketShape.MatchString(a.Ticket) || len(a.Features) > mostFeatures || a.Tokens < 0 || a.Map < 0 || a.Hi < 0 || a.Version < 0 || a.Alarm < 0 {
		return "", fmt.Errorf("evidence: ticket %.80q with %d features, %d tokens, score %d, index %d is no audit", a.Ticket, len(a.Features), a.Tokens, a.Map, a.Hi)
	}
	r := b.opts.Rule(a.Key.Route)
	var fate risk.Fate
	var err error
	if b.local != nil {
		fate, err = b.local.open(r, a)
	} else {
		var word string
		word, err = b.change(ctx, openScript, a.Key, r, a.Ticket, a.Version, a.Alarm, a.Hi, exact(a.Score), exact(a.Threshold), exact(a.Floor),
			joined(a.Features), a.Tokens, a.Map)
		fate = risk.Fate(word)
	}
	switch {
	case errors.Is(err, ErrAway):
		b.metrics.count(a.Key, labelAway)
	case err == nil && fate != risk.Booked:
		b.metrics.count(a.Key, string(fate))
	}
	return fate, err
}

// Close ends an audit that was booked. One that is not under way any more changes nothing, which
// is no error.
func (b *Book) Close(ctx context.Context, k risk.Key, ticket string, bad bool) error {
	if !ticketShape.MatchString(ticket) {
		return fmt.Errorf("evidence: %.80q is no ticket", ticket)
	}
	r := b.opts.Rule(k.Route)
	var known, warmup bool
	var err error
	if b.local != nil {
		known, warmup, err = b.local.close(r, k, ticket, bad)
	} else {
		outcome := 0
		if bad {
			outcome = 1
		}
		var word string
		word, err = b.change(ctx, closeScript, k, r, ticket, outcome)
		known, warmup = word != "0", word == "2"
	}
	if warmup {
		k = served(k)
	}
	switch {
	case errors.Is(err, ErrAway):
		b.metrics.count(k, labelAway)
	case err != nil:
	case !known:
		b.metrics.count(k, labelLost)
	case bad:
		b.metrics.count(k, labelBad)
	default:
		b.metrics.count(k, labelGood)
	}
	return err
}

// Lost counts an audit that was booked and will never be closed: it stays bad.
func (b *Book) Lost(k risk.Key) { b.metrics.count(k, labelLost) }

// Known is all that is known of a key.
type Known struct {
	Key   risk.Key
	State risk.State
	Rule  risk.Rule
	Seen  time.Time // when it was used last, to the minute
}

// Reset forgets a key: its grid, its evidence and the audits under way. What was decided before is
// stale. With a Redis, replicas that saw its warm-up end still know that it did.
func (b *Book) Reset(ctx context.Context, k risk.Key) error {
	name, err := nameOf(k)
	if err != nil {
		return err
	}
	if b.local != nil {
		b.local.reset(k)
		return nil
	}
	asked := b.now()
	if _, err := b.call(ctx, forgetScript, []string{keyIndex, keyRisk + name}, 1, mostKeys, 0, 0, name); err != nil {
		return err
	}
	b.views.learn(k, risk.State{}, asked)
	return nil
}
