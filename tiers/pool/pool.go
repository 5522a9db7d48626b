// Package pool knows the backends that serve one model: which there are, which
// are up, how loaded they are, and which one a request should go to.
//
// Start at [New], [Pool.Run] and [Pool.PickInto]. The choice itself is [choose.Choose], a
// pure function; Pool gathers the values it judges. What requests hold of a backend is
// reckoned in package capacity, what is learned of it in package estimate, and whether it is
// well in package health: pure, all three. Pool has the lock, the clock and the network.
//
// A backend that refuses a
// connection is out at once and comes back when a probe finds it. One that answers
// nothing for a second, or makes no steps though it has work, is suspect: it gets
// requests only where no other is left, and those under way there move. After two
// silent seconds it is out. One whose metrics cannot be read, or
// cannot be true, stays in with an unknown reading, which counts as neither idle nor
// full.
//
// Under the pool's lock nothing runs but the pool's own arithmetic. What others are asked (the
// clock, settings, the breaker, the index, the fleet) is asked before it is taken; what they are
// told (the fleet, waiting requests, the log) is told after it is given back.
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
	source    discover.Source // nil: the set is fixed
	found     discovered
	slots     chan struct{} // one per scrape under way
	running   atomic.Bool

	set     atomic.Pointer[[]*backend] // never changed, only replaced
	turn    atomic.Uint64              // picks so far
	scratch sync.Pool                  // of *round, so that a pick need not allocate it

	mu          sync.Mutex // guards the backends' state and what follows
	byID        map[string]*backend
	numbered    []*backend            // by number in warm; nil: gone
	fleetDrains map[string]string     // by id: why; never changed, only replaced
	ownDrains   map[string]drainOrder // by id: what only this replica was told
	warm        *prefix.Table
	length      estimate.Density
	meanPrompt  estimate.Average // of what was to be computed of the prompts picked for
	outputs     estimate.Outputs
	inUse       estimate.Average // share of warm prompts whose prefix another request of ours was using
	freed       estimate.Flow    // tokens that ended requests have freed
	units       estimate.UnitCosts
	mean        mean
	meanAt      time.Time
}

// discovered is what came of asking; one goroutine uses it.
type discovered struct {
	good    time.Time // when an answer last named somebody
	failing string    // what was logged of the failure under way
	forGood bool      // the last good answer stands until there is another
}

// locked runs f with the lock. A panic of f's leaves the pool unlocked.
func (p *Pool) locked(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// Name is the pool's name.
func (p *Pool) Name() string { return p.o.Name }

// Model is the model that the pool's backends serve.
func (p *Pool) Model() string { return p.o.Model }

// Priorities reports whether the pool's engines schedule by priority, and take a request
// that has one.
func (p *Pool) Priorities() bool { return p.o.Priorities }

// named is the backend that has an id, nil where there is none.
func (p *Pool) named(id string) *backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byID[id]
}
