// Package pipeline answers one request, from its identity to the last byte of its answer, and knows no HTTP: it looks
// for a kept answer, joins identical requests that are under way, holds the tenant to its limits, has the cascade
// answer, and keeps the answer where it may be kept.
//
// Start at [Pipeline.Answer]. What it uses it takes as interfaces and functions ([Options]), and time, waits and
// background work come from a [world.World], so that the gateway's handlers and the lab run the same code. An answer
// goes to a [Client], and what became of the request into a [Record].
package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/limits"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/world"
)

// Why a request has no answer, beside the errors of the cascade, the limiter and the cache.
var (
	ErrNotCached    = errors.New("there is no kept answer that will do, and no other is allowed")
	ErrNotShareable = errors.New("the answer cannot be shared") // it is too large, or more than is understood
	ErrPanicked     = errors.New("making the answer panicked")
)

// Cascade makes answers; [tiers.Cascade] is one.
type Cascade interface {
	Plan(rt *tiers.Route, cfg plan.Config, r *openai.Request, demanded plan.Tier) plan.Plan
	Answer(ctx context.Context, a tiers.Request, to tiers.Sink) (*receipt.Receipt, error)
	Forward(ctx context.Context, f tiers.Forward, to tiers.Sink) (*receipt.Receipt, error)
}

// Store has the answers that are kept; [cache.Store] is one.
type Store interface {
	// Epochs are those of a tenant's keys on a route. ok is false while purges are not heard of: then nothing may be
	// looked up or kept.
	Epochs(tenant, route string) (e cache.Epochs, ok bool)
	// Local is the copy of an entry in this replica. It does not wait.
	Local(k cache.Key) (*cache.Entry, bool)
	// Look asks for an entry among what all replicas keep. Where there is none it takes the lease, unless that is nil.
	Look(ctx context.Context, k cache.Key, lease *cache.Lease) (*cache.Entry, cache.Found)
	// Put keeps an entry for ttl. It does not wait; then, unless it is nil, is called when that is done, or will not be.
	Put(k cache.Key, e *cache.Entry, ttl time.Duration, then func())
	// Count books what came of the cache, once for a request; e is what was served, nil for nothing.
	Count(route, tenant string, r cache.Result, e *cache.Entry)
}

// Limiter holds tenants to their limits; [limits.Limiter] is one.
type Limiter interface {
	AcquireSlot(a limits.Request) (leave func(), err error)
	Reserve(ctx context.Context, a limits.Request) (*limits.Reservation, error)
}

// Options wires a Pipeline.
type Options struct {
	Cascade      Cascade
	Limiter      Limiter                                   // nil is one for this replica alone
	HighShare    func() float64                            // of a tenant's requests per minute, what may be high, live; nil is 0.2, 0 is all
	Store        Store                                     // nil keeps no answers
	Generations  Generations                               // nil shares none
	CacheConfig  func(route string) cache.Config           // live; nil is the zero Config
	ServedModels func(route string) (draft, target string) // model and revision of a route's pools, for keys; nil tells none
	Salt         func(tenant string) string                // keeps tenants apart in the engines' prefix caches; nil does not

	WouldFailAgain func(err error) bool       // whether an identical request would fail alike; nil is never
	OnPanic        func(id string, value any) // hears of a panic while an answer was made for several; nil is nobody

	World world.World     // nil is [world.System]
	Base  context.Context // of answers that are made for several: they end with it, not with one client; nil is the background
}

// Pipeline answers requests. It is safe for concurrent use.
type Pipeline struct {
	o      Options
	recent *recentKeys
}

// defaultHighShare is the share of a tenant's requests that may have priority high, where no other is given.
const defaultHighShare = 0.2

// New wires a pipeline. Options need a Cascade.
func New(o Options) *Pipeline {
	if o.World == nil {
		o.World = world.System{}
	}
	if o.Base == nil {
		o.Base = context.Background()
	}
	if o.Limiter == nil {
		o.Limiter = limits.New(limits.Options{Now: o.World.Now})
	}
	if o.HighShare == nil {
		o.HighShare = func() float64 { return defaultHighShare }
	}
	if o.CacheConfig == nil {
		o.CacheConfig = func(string) cache.Config { return cache.Config{} }
	}
	if o.ServedModels == nil {
		o.ServedModels = func(string) (draft, target string) { return "", "" }
	}
	if o.Salt == nil {
		o.Salt = func(string) string { return "" }
	}
	if o.WouldFailAgain == nil {
		o.WouldFailAgain = func(error) bool { return false }
	}
	if o.OnPanic == nil {
		o.OnPanic = func(string, any) {}
	}
	return &Pipeline{o: o, recent: newRecentKeys()}
}

// Metadata is what is known of a request before its body has come.
type Metadata struct {
	ID      string // the gateway's own, unique
	Began   time.Time
	Caller  identity.Caller
	Retry   bool                // its sender marked it as a further try
	HasSlot bool                // it has one of its tenant's concurrent places ([Pipeline.Place])
	Header  map[string][]string // sent along upstream: its trace
	Spans   bool                // its calls upstream are spans of that trace
}

// Request is one that the cascade may answer.
type Request struct {
	*Metadata
	Body         Body
	Route        *tiers.Route
	Tier         plan.Tier    // demanded
	Demand       plan.Demand  // than the route's mode
	CacheControl CacheControl // of the cache
	Retainer     BodyRetainer // of the body's memory; nil is nobody
}

// BodyRetainer holds the memory of a request's body until it is answered.
type BodyRetainer interface {
	// Retain holds it for longer, until released is called.
	Retain() (released func())
}

// Body is a request's body as it was read.
type Body struct {
	*openai.Request
	recent *recentKey // from which it is known; nil where it is not
}

// Scan reads the body of a tenant's request, or has it from the last time.
func (p *Pipeline) Scan(kind openai.Kind, tenant string, body []byte, bounds openai.Limits) (Body, error) {
	if known := p.recent.find(kind, tenant, body); known != nil {
		return Body{known.request, known}, nil
	}
	r, err := openai.Scan(kind, body, bounds)
	return Body{Request: r}, err
}

// Record is what became of a request, as far as it came: for its headers, the log, metrics and traces. The pipeline writes
// it and decides nothing by it. Where Answer has not returned, other goroutines may write to it.
type Record struct {
	Config      *plan.Config     // by which a draft is judged; nil where none was asked for
	Cache       cache.Result     // what came of the cache, "" where it was not asked
	Entry       *cache.Entry     // the answer, where it was not made for this request
	Receipt     *receipt.Receipt // of the answer that was made; nil where the cascade had no part in it
	LookedUpAt  time.Time        // when a kept answer was looked for among all replicas' last
	Lookup      time.Duration    // that took so long
	Limits      time.Duration    // spent on the tenant's limits
	LimitStatus limits.Status    // of the tenant, after it asked
	Demoted     bool             // from priority high: its tenant's share was used up
}
