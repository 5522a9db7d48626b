// Package evidence stores the results of audits for all replicas together: an append-only log for each route, a stream
// in Redis. Every replica folds the logs, entry by entry, into the states of package risk ([risk.Fold]). The order is Redis'
// own, so all replicas come to the same states. Without a Redis the log is in this process ([Memory]).
//
// Start at [Store]. Requests read what was folded, which is at most a second old; audits are opened and closed in the
// background. While Redis is unavailable no audit can be opened, and what is known stays valid for [Options.Stale].
//
// # What can go wrong
//
// An audit counts as bad from its opening on. If its close is lost, it stays bad; a close of an unknown audit changes
// nothing; an entry that is foreign or broken is counted and passed over. If the log is not the one that was read before
// (Redis is empty, or went back in time), or its beginning is missing, all certificates of the route end: the first
// replica that finds it writes an entry after which evidence begins anew, and every replica folds that. No error can make
// the evidence better than it is.
//
// # What is kept
//
// The latest 30,000 entries of a route, for [Store.Audits], and a snapshot of its states every 1,000 entries, so that the log
// may be trimmed, and a replica that starts need not fold all of it. Both together are at most 64 MiB.
package evidence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/tiers/risk"
)

// Options configure a [Store]. Redis must have ContextTimeoutEnabled, otherwise a frozen one delays a call by the
// client's own timeout; and no retries, otherwise an audit may be written twice.
type Options struct {
	Redis      redis.UniversalClient            // nil: the log is in Memory
	Memory     *Memory                          // may be shared by the stores of one process; nil: an own one
	Rule       func(route string) risk.Rule     // live
	Stale      func(route string) time.Duration // live: how long a view is valid while Redis is unavailable; nil is a minute
	Warmup     func(route string) time.Duration // live: of the warm-up of a traffic class, to tell its phase; nil is none
	Economics  func(k risk.Key) risk.Economics  // what the requests of a key are like, for [Store.Frontiers]
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

const (
	// callTime bounds a call of one route. A caller that leaves does not end it: the client would close the connection,
	// and the entry might be written anyway. loadTime bounds the reading of a whole log.
	callTime, loadTime = time.Second, 10 * time.Second
	// period is the time between two reads of the logs.
	period      = time.Second
	saveEvery   = 1000    // entries between two snapshots
	maxSnapshot = 4 << 20 // bytes
)

// Store holds the results of audits. Its methods are safe for concurrent use.
type Store struct {
	Options
	log      entryLog
	patience time.Duration // bounds a call
	metrics  *metrics
	frontier sync.Mutex // of who computes frontiers

	mu      sync.RWMutex            // of what follows, and of the routes
	routes  map[string]*route       // at most maxRoutes
	listed  time.Time               // when the list of routes was read
	drafted map[risk.Key]draftCount // of warm-ups, that are not in the log yet; at most risk.MaxKinds
	told    time.Time               // when none waited, or all were written
}

// New returns an empty store. Without [Store.Run] it learns nothing of what others write.
func New(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Stale == nil {
		o.Stale = func(string) time.Duration { return time.Minute }
	}
	if o.Warmup == nil {
		o.Warmup = func(string) time.Duration { return 0 }
	}
	b := &Store{Options: o, patience: callTime, metrics: newMetrics(&o), routes: map[string]*route{}, drafted: map[risk.Key]draftCount{}, told: o.Now()}
	switch {
	case o.Redis != nil:
		b.log = &stream{Redis: o.Redis}
	case o.Memory != nil:
		b.log = o.Memory
	default:
		b.log = &Memory{Now: o.Now}
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(collector{b})
	}
	return b
}

// ErrAway means that Redis did not answer, or answered with an error: the audit was not opened, or not closed. If that is
// unknown, the audit stays bad.
var ErrAway = errors.New("evidence: Redis does not answer")

// failed counts a failure, and returns its error; nil if there was none.
func (st *Store) failed(err error) error {
	if err == nil {
		return nil
	}
	what := problemAway
	if calls.Answered(err) {
		what = problemRefused
	}
	st.metrics.note(what, err)
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// rule returns the rule of a key.
func (st *Store) rule(k risk.Key) risk.Rule { return st.Rule(k.Route).For(k.TrafficClass) }

// View returns the evidence that requests of a key use, at most a second old while Redis answers. It does not block. Seen
// is zero if nothing is known yet, after a loss until the log was read again, and while Redis accepts no counts of
// warm-ups. New says that no warm-up of the key has begun: until [Store.Drafted] is called. A view that is too old serves
// nothing.
func (st *Store) View(k risk.Key) risk.View {
	rule, now := st.rule(k), st.Now()
	st.mu.RLock()
	defer st.mu.RUnlock()
	_, waiting := st.drafted[k]
	overdue := len(st.drafted) > 0 && now.Sub(st.told) > MaxUnsynced
	s, seen, room := new(risk.State), st.listed, true
	switch r := st.routes[k.Route]; {
	case r == nil:
	case r.fold == nil:
		seen = time.Time{}
	case r.fold.Kinds[k.TrafficClass] == nil:
		seen, room = r.at, len(r.fold.Kinds) < risk.MaxKinds && !r.fold.Again
	default:
		s, seen = r.fold.Kinds[k.TrafficClass], r.at
	}
	v := s.View(rule)
	if now.Sub(seen) > st.Stale(k.Route) {
		v = s.StaleView(rule)
	}
	if !overdue && k.Check() == nil {
		v.Seen = seen
	}
	v.New = !v.Seen.IsZero() && room && v.Warmup.Began == 0 && !waiting
	return v
}

// State returns the evidence of a key as it is now; without any it serves nothing.
func (st *Store) State(k risk.Key) *risk.KeyState {
	out := &risk.KeyState{Key: k, Rule: st.rule(k)}
	st.mu.RLock()
	defer st.mu.RUnlock()
	if r := st.routes[k.Route]; r != nil && r.fold != nil && r.fold.Kinds[k.TrafficClass] != nil {
		out.State = r.fold.Kinds[k.TrafficClass].Copy()
	}
	return out
}

// Run reads the logs, and writes the counts of warm-ups, once a second, until ctx ends.
func (st *Store) Run(ctx context.Context) error {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			_ = st.Tick(ctx) // counted; it is tried again
			t.Reset(period)
		}
	}
}
