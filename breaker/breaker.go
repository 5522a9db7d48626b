// Package breaker keeps one circuit breaker per backend, so that a backend that
// fails is left alone for a while and then tested before all return to it.
//
// Start at [New] and [Set.Allow]. The decision is made in this process: no
// network, and on the way of a pick nothing but one atomic read ([Set.Open]).
// Package machine has the rules as arithmetic; here are what they need of the world:
// gobreaker, a clock, a lock, Redis, metrics. Only a [machine.Fault] or a
// [machine.Unreachable] among the outcomes ever opens a breaker.
//
// Replicas that share a Redis share what they saw ([Set.Run], off every request's
// path): a backend is open for the fleet where at least half of what all saw of
// it in ten seconds were faults; a replica whose own breaker opens takes back the
// successes that it told before, so that a busy backend that fails for all is open
// as soon as all have found out. Who alone sees faults is alone with an open
// breaker, because it is its own network that is sick. An open backend is then
// tested by probes of one replica, the holder of a lease, never by a request.
// Where Redis says nothing for 1.5 s, or there is none, each replica goes by its own
// breakers and probes itself. Only without a probe, or while Run does not, a due one is
// tried by exactly one request.
//
// Never more than half of a pool is kept out for what it answered ([Set.Retain]):
// a prompt that breaks every backend must not close the pool. What cannot be
// reached is kept out all the same.
//
// Outcomes should be reported at the first byte of the response. A fault after that
// is a sample of its own: Allow, then Report with the error at once. A request that
// forgets to report cannot keep a breaker shut for ever.
package breaker

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/breaker/machine"
)

// Options wires a Set. The zero value works. There is no Now: gobreaker reads
// time.Now, and tests run in a testing/synctest bubble.
type Options struct {
	Config   func() machine.Config       // live; nil is machine.DefaultConfig
	Classify func(error) machine.Outcome // of calls and of probes; nil is machine.Classify

	// Redis is where replicas share what they saw; nil is each for itself. The client
	// must have ContextTimeoutEnabled, and no retries, or evidence is told twice.
	Redis   redis.UniversalClient
	Replica string // unlike every other replica's; "" is a random one
	// Probe tests a backend without a request of a user's, within the context's 2 s, while Run
	// does. nil: a due breaker is tried by one request, and Redis is not used.
	Probe func(ctx context.Context, pool, backend string) error

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing; one Set per Registerer
}

// Set holds the breakers of all backends of all pools. It is safe for
// concurrent use.
//
// mu is its only lock. Nothing is called under it that takes another, waits, or is not ours:
// gobreakers, Redis, the metrics, the log and the caller's functions are called without it.
type Set struct {
	config   func() machine.Config
	classify func(error) machine.Outcome
	log      zerolog.Logger
	metrics  *metrics
	base     time.Time // what the entries' atomic times count from
	link     *link     // nil: nothing is shared
	probe    func(ctx context.Context, pool, backend string) error
	events   *subscriber
	rules    machine.Options // of new breakers, but for their settings

	mu      sync.Mutex                             // guards what follows, and the entries' breakers
	entries atomic.Pointer[map[machine.Key]*entry] // the map is never changed, only replaced, so that Open needs no lock
	sizes   map[string]int                         // how many backends a pool has, where that is known
	removed []machine.Key                          // whose keys in Redis may go
}

// New returns an empty Set; breakers come into being as backends are asked for.
func New(o Options) *Set {
	if o.Config == nil {
		o.Config = machine.DefaultConfig
	}
	if o.Classify == nil {
		o.Classify = machine.Classify
	}
	if o.Replica == "" {
		o.Replica = rand.Text()
	}
	s := &Set{
		config: o.Config, classify: o.Classify, log: o.Logger, probe: o.Probe,
		base: time.Now(), sizes: map[string]int{}, rules: machine.Options{Local: newLocal, Draw: mathrand.Float64},
	}
	s.entries.Store(&map[machine.Key]*entry{})
	s.metrics = newMetrics(o.Registerer, s.States)
	if o.Redis != nil && o.Probe != nil {
		s.link = newLink(o.Redis, s.metrics.errors)
		s.events = newSubscriber(s.link, o.Replica)
	}
	return s
}

// Permit is leave to call a backend.
type Permit struct {
	set      *Set
	entry    *entry
	call     machine.Call
	reported atomic.Bool
}

// Allow asks whether a request may go to the backend. If so, the permit's Report must be called,
// best in a defer. If not, the error is a *machine.OpenError.
func (s *Set) Allow(pool, backend string) (*Permit, error) {
	e, cfg, now := s.entry(machine.Key{Pool: pool, Backend: backend}), s.config().OrDefaults(), time.Now()
	p := &Permit{set: s, entry: e}
	var v machine.Verdict
	var m machine.Move
	s.locked(func() {
		if v = e.Ask(&p.call, cfg, now); v.Decision != machine.Pass || v.Moved {
			_, m = s.settle(e, now)
		}
	})
	s.announce(e, m)
	if v.Decision == machine.Refuse {
		return nil, e.Refusal(v)
	}
	report, settled := p.call.Enter(now) // gobreaker decides, under its own lock alone
	if settled {
		return p, nil
	}
	entered := false
	if v = s.change(e, now, func() { entered = e.Entered(&p.call, report) }); !entered {
		return nil, e.Refusal(v)
	}
	return p, nil
}

// Report tells what came of the call; nil is success. Only the first report counts.
func (p *Permit) Report(err error) {
	if p.reported.Swap(true) {
		return
	}
	s, e, o, now := p.set, p.entry, p.set.classify(err), time.Now()
	e.outcomes.of(o).Inc()
	s.locked(func() {
		if e.Ended(&p.call, o, now) {
			e.evidence.note(newsOf(o), now.Sub(s.base))
		}
	})
	if !p.call.Tell(o, now) {
		s.change(e, now, func() { e.Free(&p.call) })
	}
}

// locked does something under the lock.
func (s *Set) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// change makes a change of a breaker, and all that follows from it.
func (s *Set) change(e *entry, now time.Time, change func()) (v machine.Verdict) {
	var m machine.Move
	s.locked(func() {
		change()
		v, m = s.settle(e, now)
	})
	s.announce(e, m)
	return v
}

// settle takes a change over into what is told to others, who of the pool is kept out, and what
// a pick reads. The caller holds mu, and announces the move when it does not any more.
func (s *Set) settle(e *entry, now time.Time) (machine.Verdict, machine.Move) {
	v, m := e.Settle(now)
	if v.Tell.Revoke {
		e.evidence.revoke()
		e.revoke = true
	}
	if v.Tell.Forget { // Redis has forgotten it, too
		e.evidence, e.sent, e.revoke = evidence{}, evidence{}, false
		e.ramping.Store(max(int64(now.Sub(s.base)), 1))
	}
	e.publish(&v, s.base)
	if m.Eject {
		s.eject(e.Pool, now)
	}
	return v, m
}

// eject decides who of a pool may be kept out, where the pool's size is known. The caller holds mu.
func (s *Set) eject(pool string, now time.Time) {
	size, known := s.sizes[pool]
	if !known {
		return
	}
	entries := *s.entries.Load()
	var all []*machine.Breaker
	for k, e := range entries {
		if k.Pool == pool {
			all = append(all, e.Breaker)
		}
	}
	for _, b := range machine.Eject(all, size) {
		v := b.Verdict(now)
		entries[b.Key].publish(&v, s.base)
	}
}

// announce counts and logs a transition, and has the other replicas know, without the lock.
func (s *Set) announce(e *entry, m machine.Move) {
	if m.From == m.To {
		return
	}
	s.metrics.moved(e.Key, m.To)
	by := "the fleet"
	if !m.ByFleet {
		by = "this replica"
		s.wake()
	}
	event := s.log.Info()
	if m.To == machine.Open {
		event = s.log.Warn().Dur("for", m.Lasts)
	}
	event.Str("pool", e.Pool).Str("backend", e.Backend).
		Stringer("from", m.From).Stringer("to", m.To).Str("by", by).Msg("breaker moved")
}

// Open tells whether the backend takes no request now: its breaker is open, or
// half-open and being tried. It changes nothing, takes no lock and does not
// create a breaker, so it may be asked for every backend on every pick.
func (s *Set) Open(pool, backend string) bool {
	e := (*s.entries.Load())[machine.Key{Pool: pool, Backend: backend}]
	return e != nil && s.openTime(&e.shut)
}

// Shut is Open without max ejection ([Set.Retain]): whoever has another pool to go to need not
// go where the breaker is open only because too many of this pool's are. It is as cheap.
func (s *Set) Shut(pool, backend string) bool {
	e := (*s.entries.Load())[machine.Key{Pool: pool, Backend: backend}]
	return e != nil && s.openTime(&e.broken)
}

// openTime tells whether a time since base has not come yet; 0 is none.
func (s *Set) openTime(until *atomic.Int64) bool {
	t := until.Load()
	return t != 0 && time.Since(s.base) < time.Duration(t)
}

// Ramp is the share of its turns that the backend may take, 0.1 to 1: all of them, but for
// the 10 s after its breaker has closed. It is one atomic read.
func (s *Set) Ramp(pool, backend string) float64 {
	e := (*s.entries.Load())[machine.Key{Pool: pool, Backend: backend}]
	if e == nil {
		return 1
	}
	began := e.ramping.Load()
	if began == 0 {
		return 1
	}
	return machine.Ramp(time.Since(s.base) - time.Duration(began))
}

// Retain says which backends the pool has. Breakers of others are forgotten, with
// their series; those that are named are followed in Redis from then on. It is cheap
// where nothing has changed, and to be called often.
func (s *Set) Retain(pool string, backends []string) {
	for _, b := range backends {
		s.entry(machine.Key{Pool: pool, Backend: b})
	}
	gone, changed := s.retain(pool, backends)
	for _, k := range gone {
		s.metrics.forget(k)
	}
	if changed {
		s.wake()
	}
}

// retain tells which breakers it has dropped, and whether anything has changed.
func (s *Set) retain(pool string, backends []string) (gone []machine.Key, changed bool) {
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
			gone = append(gone, k)
			delete(kept, k)
		}
	}
	if s.link != nil {
		s.removed = append(s.removed, gone[:min(len(gone), maxGone-len(s.removed))]...)
	}
	s.entries.Store(&kept)
	s.eject(pool, time.Now())
	return gone, true
}

// entry returns the breaker of k, a new one if there is none.
func (s *Set) entry(k machine.Key) *entry {
	if e := (*s.entries.Load())[k]; e != nil {
		return e
	}
	fresh, o := &entry{outcomes: s.metrics.outcomesOf(k)}, s.rules
	o.Config = s.config().OrDefaults()
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.entries.Load()
	if e := old[k]; e != nil {
		return e
	}
	_, known := s.sizes[k.Pool]
	o.MayEject = !known
	fresh.Breaker = machine.NewBreaker(k, o, time.Now())
	grown := maps.Clone(old)
	grown[k] = fresh
	s.entries.Store(&grown)
	return fresh
}

// State is one breaker as a status page shows it.
type State struct {
	Pool    string
	Backend string
	State   string        // "closed", "half-open" or "open"
	Left    time.Duration // how long still open; of a half-open one, how long its trial may still take
	Alone   bool          // not closed here, and closed for the fleet
}

// States lists all breakers by pool and backend.
func (s *Set) States() []State {
	entries := *s.entries.Load()
	out := make([]State, 0, len(entries))
	now := time.Now()
	for k, e := range entries {
		var v machine.Verdict
		s.locked(func() { v = e.Verdict(now) })
		out = append(out, State{Pool: k.Pool, Backend: k.Backend, State: v.Display.String(), Left: v.Left, Alone: v.Alone})
	}
	slices.SortFunc(out, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Backend, b.Backend))
	})
	return out
}
