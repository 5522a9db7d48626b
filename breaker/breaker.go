// Package breaker keeps one circuit breaker per backend, so that a backend that
// fails is left alone for a while and then tried by one request before all
// return to it.
//
// Start at [New] and [Set.Allow]. The decision is local to this process: no
// network, and on the way of a pick nothing but one atomic read ([Set.Open]).
// Four classes of outcome exist ([Outcome]); only a [Fault] ever opens a
// breaker. A breaker that is due is tried by exactly one request, and a request
// that forgets to tell its outcome cannot keep it shut for ever.
//
// Outcomes should be told at the first byte of the response. A fault after that
// is a sample of its own: Allow, then done with the error at once.
package breaker

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Config is what an operator may tune of the breakers, live. A change takes
// effect with a backend's next fresh breaker: at the next request where it is
// closed, and after it has closed where it is open.
type Config struct {
	Failures int           // consecutive faults that open (default 5)
	Window   time.Duration // how long an outcome counts, in ten buckets (default 10 s)
	Open     time.Duration // how long it stays open, ×0.8–1.2 at random (default 10 s)
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
	Config     func() Config       // live; nil is DefaultConfig
	Classify   func(error) Outcome // nil is Classify
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

	// The map is never changed, only replaced, so that Open needs no lock.
	mu      sync.Mutex // held by who replaces it
	entries atomic.Pointer[map[key]*entry]
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
	s := &Set{config: o.Config, classify: o.Classify, log: o.Logger, base: time.Now()}
	s.entries.Store(&map[key]*entry{})
	s.metrics = newMetrics(o.Registerer, s.States)
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
	if e == nil {
		return false
	}
	shut := e.shut.Load()
	return shut != 0 && time.Since(s.base) < time.Duration(shut)
}

// Retain forgets every breaker of the pool that is not named, and its series.
func (s *Set) Retain(pool string, backends []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := maps.Clone(*s.entries.Load())
	for k := range kept {
		if k.pool == pool && !slices.Contains(backends, k.backend) {
			delete(kept, k)
			s.metrics.forget(k)
		}
	}
	s.entries.Store(&kept)
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
	e := newEntry(k, s.base, s.config().orDefaults())
	e.outcomes = s.metrics.outcomesOf(k)
	grown := maps.Clone(old)
	grown[k] = e
	s.entries.Store(&grown)
	return e
}

// tell logs a transition, after all locks are released.
func (s *Set) tell(e *entry, m move) {
	if m.from == m.to {
		return
	}
	event := s.log.Info()
	if m.to == open {
		event = s.log.Warn().Dur("for", m.open)
	}
	event.Str("pool", e.pool).Str("backend", e.backend).
		Stringer("from", m.from).Stringer("to", m.to).Msg("breaker moved")
}

// State is one breaker as a status page shows it.
type State struct {
	Pool    string
	Backend string
	State   string        // "closed", "half-open" or "open"
	Left    time.Duration // how long still open; of a half-open one, how long its trial may still take
}

// States lists all breakers by pool and backend.
func (s *Set) States() []State {
	entries := *s.entries.Load()
	out := make([]State, 0, len(entries))
	now := time.Now()
	for k, e := range entries {
		phase, left := e.now(now)
		out = append(out, State{Pool: k.pool, Backend: k.backend, State: phase.String(), Left: left})
	}
	slices.SortFunc(out, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Backend, b.Backend))
	})
	return out
}
