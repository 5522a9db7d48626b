// Package breaker keeps one circuit breaker per backend, so that a backend that
// fails is left alone for a while and then tested before all return to it.
//
// Start at [New] and [Set.Allow]. The decision is made in this process: no
// network, and on the way of a pick nothing but one atomic read ([Set.Open]).
// Only a [Fault] or an [Unreachable] among the outcomes ever opens a breaker.
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
// Outcomes should be told at the first byte of the response. A fault after that
// is a sample of its own: Allow, then done with the error at once. A request that
// forgets to tell its outcome cannot keep a breaker shut for ever.
package breaker

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// Config is what an operator may tune of the breakers, live. A change takes
// effect with a backend's next fresh breaker: at the next request where it is
// closed, and after it has closed where it is open.
type Config struct {
	Failures int           // consecutive faults that open (default 5)
	Window   time.Duration // how long an outcome counts, in ten buckets (default 10 s)

	// Open is how long a breaker of this replica's own stays open, ×0.8–1.2 at random
	// (default 10 s): without Redis, or where others find the backend well. One that
	// is open for the fleet is tested after 2 s, then 4, 8 … 30 s, whatever this says.
	Open time.Duration
}

// DefaultConfig holds the values that are used where none are set.
func DefaultConfig() Config {
	return Config{Failures: 5, Window: 10 * time.Second, Open: 10 * time.Second}
}

// orDefaults replaces what is zero or out of range by its default.
func (c Config) orDefaults() Config {
	d := DefaultConfig()
	if c.Failures <= 0 {
		c.Failures = d.Failures
	}
	if c.Window < buckets {
		c.Window = d.Window
	}
	if c.Open <= 0 {
		c.Open = d.Open
	}
	return c
}

// Options wires a Set. The zero value works. There is no Now: gobreaker reads
// time.Now, and tests run in a testing/synctest bubble.
type Options struct {
	Config   func() Config       // live; nil is DefaultConfig
	Classify func(error) Outcome // of calls and of probes; nil is Classify

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
type Set struct {
	config   func() Config
	classify func(error) Outcome
	log      zerolog.Logger
	metrics  *metrics
	base     time.Time // what the entries' atomic times count from
	link     *link     // nil: nothing is shared
	probe    func(ctx context.Context, pool, backend string) error
	ear      *ear

	// The map is never changed, only replaced, so that Open needs no lock.
	mu      sync.Mutex // held by who replaces it, and guards what follows
	entries atomic.Pointer[map[key]*entry]
	members map[string]int // how many backends a pool has, where that is known
	gone    []key          // whose keys in Redis may go

	flooring sync.Mutex // held by who decides which breakers may be shut
}

// key names a breaker.
type key struct{ pool, backend string }

// New returns an empty Set; breakers come into being as backends are asked for.
func New(o Options) *Set {
	if o.Config == nil {
		o.Config = DefaultConfig
	}
	if o.Classify == nil {
		o.Classify = Classify
	}
	if o.Replica == "" {
		o.Replica = rand.Text()
	}
	s := &Set{
		config: o.Config, classify: o.Classify, log: o.Logger, probe: o.Probe,
		base: time.Now(), members: map[string]int{},
	}
	s.entries.Store(&map[key]*entry{})
	s.metrics = newMetrics(o.Registerer, s.States)
	if o.Redis != nil && o.Probe != nil {
		s.link = &link{redis: o.Redis, errors: s.metrics.errors}
		s.ear = newEar(s.link, o.Replica)
	}
	return s
}

// Allow asks whether a request may go to the backend. If so, done must be
// called with what came of it (nil for success), best in a defer; only the
// first call counts. If not, the error is an *OpenError.
func (s *Set) Allow(pool, backend string) (done func(error), err error) {
	e := s.entry(key{pool, backend})
	c, moved, err := e.allow(s.config().orDefaults(), time.Now())
	s.tell(e, moved)
	if err != nil {
		return nil, err
	}
	var told atomic.Bool
	return func(err error) {
		if told.Swap(true) {
			return
		}
		outcome := s.classify(err) // before any lock is taken: it is not our code
		e.outcomes.of(outcome).Inc()
		s.tell(e, e.finish(c, outcome, time.Now()))
	}, nil
}

// Open tells whether the backend takes no request now: its breaker is open, or
// half-open and being tried. It changes nothing, takes no lock and does not
// create a breaker, so it may be asked for every backend on every pick.
func (s *Set) Open(pool, backend string) bool {
	e := (*s.entries.Load())[key{pool, backend}]
	return e != nil && s.lasts(&e.shut)
}

// Shut is Open without the floor ([Set.Retain]): whoever has another pool to go to need not
// go where the breaker is open only because too many of this pool's are. It is as cheap.
func (s *Set) Shut(pool, backend string) bool {
	e := (*s.entries.Load())[key{pool, backend}]
	return e != nil && s.lasts(&e.broken)
}

// lasts tells whether a time since base has not come yet; 0 is none.
func (s *Set) lasts(until *atomic.Int64) bool {
	t := until.Load()
	return t != 0 && time.Since(s.base) < time.Duration(t)
}

// Ramp is the share of its turns that the backend may take, 0.1 to 1: all of them, but for
// the 10 s after its breaker has closed, in which it grows evenly (Traefik's breaker does so).
// It is one atomic read.
func (s *Set) Ramp(pool, backend string) float64 {
	e := (*s.entries.Load())[key{pool, backend}]
	if e == nil {
		return 1
	}
	began := e.ramping.Load()
	if began == 0 {
		return 1
	}
	done := float64(time.Since(s.base)-time.Duration(began)) / float64(rampTime)
	return min(rampLeast+(1-rampLeast)*done, 1)
}

const (
	rampTime  = 10 * time.Second
	rampLeast = 0.1
)

// Retain says which backends the pool has. Breakers of others are forgotten, with
// their series; those that are named are followed in Redis from then on. It is cheap
// where nothing has changed, and to be called often.
func (s *Set) Retain(pool string, backends []string) {
	if s.retain(pool, backends) {
		s.floor(pool)
		s.wake()
	}
}

// retain reports whether anything has changed.
func (s *Set) retain(pool string, backends []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, known := s.members[pool]
	changed := !known || n != len(backends)
	s.members[pool] = len(backends)
	old := *s.entries.Load()
	if same(old, pool, backends) {
		return changed
	}
	kept := maps.Clone(old)
	for k := range kept {
		if k.pool == pool && !slices.Contains(backends, k.backend) {
			delete(kept, k)
			s.metrics.forget(k)
			if s.link != nil && len(s.gone) < mostGone {
				s.gone = append(s.gone, k)
			}
			changed = true
		}
	}
	for _, b := range backends {
		if k := (key{pool, b}); kept[k] == nil {
			kept[k] = s.newEntry(k)
			changed = true
		}
	}
	s.entries.Store(&kept)
	return changed
}

// same reports whether the pool's breakers are those of the backends, which differ.
func same(entries map[key]*entry, pool string, backends []string) bool {
	for _, b := range backends {
		if entries[key{pool, b}] == nil {
			return false
		}
	}
	n := 0
	for k := range entries {
		if k.pool == pool {
			n++
		}
	}
	return n == len(backends)
}

// newEntry returns a closed breaker. The caller holds mu.
func (s *Set) newEntry(k key) *entry {
	e := newEntry(k, s.base, s.config().orDefaults())
	e.outcomes = s.metrics.outcomesOf(k)
	_, known := s.members[k.pool]
	e.may = !known
	return e
}

// entry returns the breaker of k, a new one if there is none.
func (s *Set) entry(k key) *entry {
	if e := (*s.entries.Load())[k]; e != nil {
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.entries.Load()
	if e := old[k]; e != nil {
		return e
	}
	e := s.newEntry(k)
	grown := maps.Clone(old)
	grown[k] = e
	s.entries.Store(&grown)
	return e
}

// tell counts and logs a transition, after all locks are released, and lets the rest of
// the pool and the other replicas know.
func (s *Set) tell(e *entry, m move) {
	if m.from == m.to {
		return
	}
	s.metrics.moved(e.key, m.to)
	s.floor(e.pool)
	if !m.fleet {
		s.wake()
	}
	event := s.log.Info()
	if m.to == open {
		event = s.log.Warn().Dur("for", m.open)
	}
	by := "this replica"
	if m.fleet {
		by = "the fleet"
	}
	event.Str("pool", e.pool).Str("backend", e.backend).
		Stringer("from", m.from).Stringer("to", m.to).Str("by", by).Msg("breaker moved")
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
		phase, left, alone := e.now(now)
		out = append(out, State{Pool: k.pool, Backend: k.backend, State: phase.String(), Left: left, Alone: alone})
	}
	slices.SortFunc(out, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Backend, b.Backend))
	})
	return out
}
