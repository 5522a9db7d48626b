// Package pool knows the backends that serve one model: which there are, which
// are up, how loaded they are, and which one a request should go to.
//
// Start at [New], [Pool.Run] and [Pool.Pick]. The choice itself is [Choose], a
// pure function in fit.go whose formula is documented there; Pool gathers the
// values it judges. A backend that refuses a connection is out at once and
// comes back when a probe finds it; one whose metrics cannot be read stays in
// with an unknown reading, which counts as neither idle nor full.
package pool

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/pressure"
)

// Resolver answers which addresses a host name has; net.DefaultResolver is one.
type Resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// Options wires a Pool. Either Backends or Discover is set.
type Options struct {
	Name       string
	Model      string
	Backends   []string // base URLs
	Discover   string   // "dns://host:port": every A and AAAA record is a backend
	USDPerHour float64

	Config   func() Config          // live; nil is DefaultConfig
	Pressure func() pressure.Config // live; nil is pressure.DefaultConfig

	// Open is the breaker's view: true means do not pick. It is asked once per
	// backend and pick, so it must be cheap; nil is never open.
	Open func(backend string) bool

	Resolver   Resolver // nil is net.DefaultResolver
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing; pools may share one
	Now        func() time.Time      // nil is time.Now
}

// Pool is a set of backends that serve one model. It is safe for concurrent use.
type Pool struct{ opts Options }

// New checks the options and returns a Pool that may be picked from at once;
// readings, discovery and recovery need Run.
func New(o Options) (*Pool, error) { return &Pool{opts: o}, nil }

// Name is the pool's name.
func (p *Pool) Name() string { return p.opts.Name }

// Model is the model that the pool's backends serve.
func (p *Pool) Model() string { return p.opts.Model }

// USDPerHour is what one backend of the pool costs.
func (p *Pool) USDPerHour() float64 { return p.opts.USDPerHour }

// Run scrapes, probes and discovers until ctx ends, and returns nil after all
// that it started has ended.
func (p *Pool) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Healthy tells whether some backend is neither down nor Open.
func (p *Pool) Healthy() bool { return false }

// BackendState is one backend as status, shedding and metrics see it.
type BackendState struct {
	ID         string
	URL        string
	Reading    pressure.Reading // the last one, however old
	HasReading bool             // Reading is younger than pressure.Config.Absent
	KVUsage    float64          // aged, 0..1; the pool's mean when HasReading is false
	InFlight   int              // this replica's requests there
	Tokens     int              // their prompt tokens and half of their expected output
	Down       bool
	Why        string  // why it is down
	Open       bool    // the breaker's view
	Wait       float64 // expected seconds before a typical prompt's first token
	Score      float64 // 1/(1+Wait)

	PrefillRate float64 // learned, prompt tokens per second
	DecodeRate  float64 // learned, tokens per second of one request
}

// Snapshot tells how every backend stands, in the order of the set.
func (p *Pool) Snapshot() []BackendState { return nil }
