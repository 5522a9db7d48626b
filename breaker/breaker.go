// Package breaker keeps one circuit breaker per backend. A backend that fails gets no requests for a while,
// and is then tested before all requests return to it. Start at [New] and [Set.Allow]. The decision is made
// in this process without network access, and a pick costs one atomic read ([Set.Open]). The rules are pure
// (table.go, state.go) and the same with Redis, without it, and in the lab; gobreaker judges this replica's own
// calls. Only a [Fault] or an [Unreachable] opens a breaker. Replicas that share a Redis share their
// observations ([Set.Run], outside every request's path). A backend is open for the fleet if at least half of
// the calls that all replicas finished within ten seconds were faults. A replica whose own breaker opens
// revokes the successes that it reported before, so that a busy backend that fails for all is open as soon as
// all replicas have noticed. If only one replica sees faults, only its own breaker opens, because its own
// network is the likely cause. An open backend is then tested by probes of one replica, which holds a lease,
// never by a request. If Redis is silent for 1.5 s, or there is none, each replica uses its own breakers and
// probes for itself. Only without a probe, or while Run does not run, exactly one request tests a breaker
// whose open time is over. Backends that answer badly are kept out only up to half of a pool ([Set.Retain]):
// a prompt that breaks every backend must not close the pool. Backends that cannot be reached are always kept
// out. Report an outcome at the first byte of the response. A fault after that is a sample of its own: Allow,
// then Report with the error at once. A request that forgets to report cannot block a breaker for ever.
package breaker

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// Options configures a Set. The zero value works.
type Options struct {
	Config   func() Config       // live; nil is DefaultConfig
	Classify func(error) Outcome // of calls and of probes; nil is Classify

	// Redis is where replicas share observations; nil: not shared. The client must have
	// ContextTimeoutEnabled, and no retries, otherwise evidence is counted twice.
	Redis redis.UniversalClient
	// Probe tests a backend without a user's request, within the context's 2 s, while Run runs. nil: one
	// request tests a breaker whose open time is over, and Redis is not used.
	Probe func(ctx context.Context, pool, backend string) error

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing; one Set per Registerer

	// For the lab, which has its own clock and does not call Run.
	Now   func() time.Time                      // nil is time.Now
	Local func(cfg Config, now time.Time) Local // makes a closed one; nil is gobreaker, which needs time.Now
	Draw  func() float64                        // in [0, 1), for open times; nil is random
}

// Set holds the breakers of all backends of all pools. It is safe for concurrent use.
//
// mu is its only lock. It is never held during calls of Redis, metrics, the log and the caller's functions except
// Local and Draw: these may block or take other locks.
type Set struct {
	config   func() Config
	classify func(error) Outcome
	now      func() time.Time
	local    func(Config, time.Time) Local
	draw     func() float64
	log      zerolog.Logger
	metrics  *metrics
	base     time.Time // zero of the entries' atomic times
	link     *link     // nil: nothing is shared
	probe    func(ctx context.Context, pool, backend string) error
	wakes    chan struct{} // requests a tick now

	mu      sync.Mutex                     // guards what follows, and the entries' breakers
	entries atomic.Pointer[map[Key]*entry] // the map is replaced, never changed, so that Open needs no lock
	sizes   map[string]int                 // number of backends by pool, if known
}

// New returns an empty Set; breakers are made when their backends are first used.
func New(o Options) *Set {
	s := &Set{
		config: o.Config, classify: o.Classify, now: o.Now, local: o.Local, draw: o.Draw, log: o.Logger, probe: o.Probe,
		sizes: map[string]int{}, wakes: make(chan struct{}, 1),
	}
	if s.config == nil {
		s.config = DefaultConfig
	}
	if s.classify == nil {
		s.classify = Classify
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.local == nil {
		s.local = newGobreak
	}
	if s.draw == nil {
		s.draw = rand.Float64
	}
	s.base = s.now()
	s.entries.Store(&map[Key]*entry{})
	s.metrics = newMetrics(o.Registerer, s.States)
	if o.Redis != nil && o.Probe != nil {
		s.link = newLink(o.Redis, s.metrics.errors)
	}
	return s
}

// Permit allows one call to a backend.
type Permit struct {
	set      *Set
	entry    *entry
	tenant   string
	call     call
	reported atomic.Bool
}

// Allow asks whether a request may go to the backend. If so, call the permit's Report, best in a defer. If
// not, the error is an *OpenError.
func (s *Set) Allow(pool, backend string) (*Permit, error) { return s.AllowFor(pool, backend, "") }

// AllowFor is Allow for a request of a tenant: faults that one tenant alone provokes do not count ([blame.Blame]).
func (s *Set) AllowFor(pool, backend, tenant string) (*Permit, error) {
	e, cfg, now := s.entry(Key{Pool: pool, Backend: backend}), s.config().OrDefaults(), s.now()
	p := &Permit{set: s, entry: e, tenant: tenant}
	var err error
	s.change(e, now, func() { err = e.allow(&p.call, cfg, now) })
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Report reports the result of the call; nil is success. Only the first report counts.
func (p *Permit) Report(err error) {
	if p.reported.Swap(true) {
		return
	}
	s, e, o, now := p.set, p.entry, p.set.classify(err), p.set.now()
	s.change(e, now, func() {
		switch {
		case o == Success:
			e.blame.AnsweredWell(p.tenant, now)
		case o == Fault && !e.blame.Counts(p.tenant, now):
			o = Neutral
		}
		if e.ended(&p.call, o, now) {
			e.evidence.note(newsOf(o), now.Sub(s.base))
		}
	})
}

// locked calls do under the lock.
func (s *Set) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// change changes a breaker, and updates everything that depends on it.
func (s *Set) change(e *entry, now time.Time, change func()) (v verdict) {
	var m move
	s.locked(func() {
		change()
		v, m = s.settle(e, now)
	})
	s.announce(e, m)
	return v
}

// settle updates the evidence for others, the ejections of the pool, and the state that a pick reads after a
// change. The caller holds mu, and calls announce after releasing it.
func (s *Set) settle(e *entry, now time.Time) (verdict, move) {
	v, m := e.settle(now)
	if v.Revoke {
		e.evidence.revoke()
		e.revoke = true
	}
	if v.Forget { // Redis has deleted it, too
		e.evidence, e.sent, e.revoke = evidence{}, evidence{}, false
		e.ramping.Store(max(int64(now.Sub(s.base)), 1))
	}
	e.publish(&v, s.base)
	if m.eject {
		s.eject(e.Pool, now)
	}
	return v, m
}

// eject decides which backends of a pool may be kept out, if the pool's size is known. The caller holds mu.
func (s *Set) eject(pool string, now time.Time) {
	size, known := s.sizes[pool]
	if !known {
		return
	}
	var all []*entry
	for k, e := range *s.entries.Load() {
		if k.Pool == pool {
			all = append(all, e)
		}
	}
	eject(all, size, func(e *entry) {
		v := combine(&e.facts, now)
		e.publish(&v, s.base)
	})
}

// announce counts and logs a transition, without the lock. One of this replica is told to Redis at once.
func (s *Set) announce(e *entry, m move) {
	if m.from == m.to {
		return
	}
	s.metrics.moved(e.Key, m.to)
	by := "the fleet"
	if !m.byFleet {
		by = "this replica"
		s.wake()
	}
	event := s.log.Info()
	if m.to == Open {
		event = s.log.Warn().Dur("for", m.lasts)
	}
	event.Str("pool", e.Pool).Str("backend", e.Backend).
		Stringer("from", m.from).Stringer("to", m.to).Str("by", by).Msg("breaker moved")
}

// Open reports whether the backend takes no request now: its breaker is open, or half-open and being tried.
// It changes nothing, takes no lock and creates no breaker, so it may be called for every backend on every
// pick.
func (s *Set) Open(pool, backend string) bool {
	e := (*s.entries.Load())[Key{Pool: pool, Backend: backend}]
	return e != nil && s.openTime(&e.shut)
}

// Shut is Open without max ejection ([Set.Retain]), for a request that can use another pool: it avoids a
// backend whose breaker lets requests pass only because too many of its pool's are open. It is as cheap.
func (s *Set) Shut(pool, backend string) bool {
	e := (*s.entries.Load())[Key{Pool: pool, Backend: backend}]
	return e != nil && s.openTime(&e.broken)
}

// openTime reports whether a time since base is in the future; 0 is none.
func (s *Set) openTime(until *atomic.Int64) bool {
	t := until.Load()
	return t != 0 && s.now().Sub(s.base) < time.Duration(t)
}

// Ramp is the share of its turns that the backend may take, 0.1 to 1. It is below 1 only in the 10 s after
// its breaker has closed. It is one atomic read.
func (s *Set) Ramp(pool, backend string) float64 {
	e := (*s.entries.Load())[Key{Pool: pool, Backend: backend}]
	if e == nil {
		return 1
	}
	began := e.ramping.Load()
	if began == 0 {
		return 1
	}
	return ramp(s.now().Sub(s.base) - time.Duration(began))
}

// Restarted says that another process answers at a backend: if its breaker is open, it is tested now. The faults of the
// process that ended say little of this one, and in a rolling restart the next backend ends before the open time is over.
func (s *Set) Restarted(pool, backend string) {
	e := s.entry(Key{Pool: pool, Backend: backend})
	s.change(e, s.now(), func() { e.facts.Restarted = e.facts.WasShown != Closed && s.probe != nil })
	s.wake()
}

// Retain sets the backends of a pool. Breakers of others are deleted with their series; the named ones are
// read in Redis from then on. It is cheap if nothing has changed, and should be called often.
func (s *Set) Retain(pool string, backends []string) {
	for _, b := range backends {
		s.entry(Key{Pool: pool, Backend: b})
	}
	removedKeys, changed := s.retain(pool, backends)
	for _, k := range removedKeys {
		s.metrics.forget(k)
	}
	if changed {
		s.wake()
	}
}

// retain returns the deleted breakers, and whether anything has changed.
func (s *Set) retain(pool string, backends []string) (removedKeys []Key, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, had := *s.entries.Load(), 0
	for k := range old {
		if k.Pool == pool {
			had++
		}
	}
	if n, known := s.sizes[pool]; known && n == len(backends) && n == had {
		return nil, false
	}
	s.sizes[pool] = len(backends)
	kept := maps.Clone(old)
	for k := range old {
		if k.Pool == pool && !slices.Contains(backends, k.Backend) {
			removedKeys = append(removedKeys, k)
			delete(kept, k)
		}
	}
	s.entries.Store(&kept)
	s.eject(pool, s.now())
	return removedKeys, true
}

// entry returns the breaker of k, a new one if there is none.
func (s *Set) entry(k Key) *entry {
	if e := (*s.entries.Load())[k]; e != nil {
		return e
	}
	cfg, now := s.config().OrDefaults(), s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.entries.Load()
	if e := old[k]; e != nil {
		return e
	}
	_, known := s.sizes[k.Pool]
	fresh := &entry{backend: backend{Key: k, newLocal: s.local, draw: s.draw, facts: facts{MayEject: !known}}}
	fresh.renew(cfg, now)
	grown := maps.Clone(old)
	grown[k] = fresh
	s.entries.Store(&grown)
	return fresh
}

// wake makes Run tick now.
func (s *Set) wake() {
	select {
	case s.wakes <- struct{}{}:
	default:
	}
}

// Status is one breaker as a status page shows it.
type Status struct {
	Pool      string
	Backend   string
	State     State
	Remaining time.Duration // remaining open time; of a half-open one, the remaining time of its trial
	Alone     bool          // not closed here, but closed for the fleet
}

// States returns all breakers by pool and backend.
func (s *Set) States() []Status {
	entries := *s.entries.Load()
	out := make([]Status, 0, len(entries))
	now := s.now()
	for k, e := range entries {
		var v verdict
		s.locked(func() { v = combine(&e.facts, now) })
		out = append(out, Status{Pool: k.Pool, Backend: k.Backend, State: v.Display, Remaining: v.Remaining, Alone: v.Alone})
	}
	slices.SortFunc(out, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Backend, b.Backend))
	})
	return out
}
