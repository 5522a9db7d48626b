// Package pool holds the backends that serve one model: which exist, which are up, how loaded they are, and which one a
// request goes to.
//
// Start at [New], [Pool.Run] and [Pool.PickInto]. The choice itself is the pure function choose; Pool collects its
// inputs. Package estimate, which holds learned values, and monitor, which decides whether a backend is well, have no
// clock, lock or network either: Pool has them.
//
// A backend that refuses a connection is out at once and returns when a probe succeeds. One that answers nothing for a
// second, or makes no steps although it has work, is suspect: it gets requests only if no other is left, and running
// requests move away. After two seconds of silence it is out: no request waits there, and the pool asks for one token at
// a time until it gets an answer. One whose metrics cannot be read, or cannot be true, stays in with an unknown reading,
// which counts as neither idle nor full.
//
// Only the pool's own arithmetic runs under its lock. The clock, settings, breaker, index and fleet are queried before
// it is taken; the fleet, waiting requests and the log are notified after it is released.
package pool

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/discover"
	"github.com/foregate/foregate/tiers/pool/estimate"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// Pool is a set of backends that serve one model. It is safe for concurrent use.
type Pool struct {
	o         Options
	log       zerolog.Logger
	metrics   *metrics
	score     prometheus.Observer
	prevented prometheus.Counter
	scraper   *pressure.Scraper
	source    *discover.Source // nil: the backends are fixed
	found     time.Time        // the last answer of discovery with backends; Run alone uses it
	changed   chan struct{}    // SetBackends was called

	set     atomic.Pointer[[]*backend] // never changed, only replaced
	turn    atomic.Uint64              // picks so far
	scratch sync.Pool                  // of *round, to avoid allocations
	scrapes chan struct{}              // one of each scrape under way

	mu         sync.Mutex // guards the backends' state and what follows
	byID       map[string]*backend
	notFound   string            // why discovery finds nothing now; "": it does
	drains     map[string]string // reason by id; never changed, only replaced
	warm       *prefix.Table
	length     estimate.Density
	meanPrompt estimate.Average // prompt tokens to compute per pick
	outputs    estimate.Outputs
	inUse      estimate.Average // share of cached prompts whose prefix another own request was using
	freed      estimate.Flow    // tokens freed by ended requests
	units      estimate.UnitCosts
	price      Price

	providerCached estimate.Average // share of prompts that hosted backends find in their cache

	refusalLogged time.Time // the last log line about refused credentials
}

// locked runs f with the lock. A panic of f releases the lock.
func (p *Pool) locked(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// Name returns the pool's name.
func (p *Pool) Name() string { return p.o.Name }

// Model returns the model that the pool's backends serve.
func (p *Pool) Model() string { return p.o.Model }

// Priorities reports whether the pool's engines use request priorities.
func (p *Pool) Priorities() bool { return p.o.Priorities }

// named returns the backend with an id, or nil.
func (p *Pool) named(id string) *backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byID[id]
}
