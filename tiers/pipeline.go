package tiers

import (
	"context"
	"errors"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers/plan"
)

// Why a request has no answer, besides the errors of the cascade, the ledger and the cache.
var (
	ErrNotCached    = errors.New("there is no kept answer that will do, and no other is allowed")
	ErrNotShareable = errors.New("the answer cannot be shared") // it is too large, or cannot be parsed
	ErrPanicked     = errors.New("making the answer panicked")
)

// Store holds the cached answers; [cache.Store] is one.
type Store interface {
	// Epochs returns the epochs of a tenant's keys on a route. ok is false while purges have not been received for
	// longer than 10 s: then nothing may be read or stored.
	Epochs(tenant, route string) (e cache.Epochs, ok bool)
	// Local returns this replica's copy of an entry. It does not block.
	Local(k cache.Key) (*cache.Entry, bool)
	// Look reads an entry from the shared cache.
	Look(ctx context.Context, k cache.Key) (*cache.Entry, cache.Result)
	// Put stores an entry for ttl. It does not block. If then is not nil, it is called when the entry is
	// stored or dropped.
	Put(k cache.Key, e *cache.Entry, ttl time.Duration, then func())
	// Count counts the cache result, once per request; e is the served entry, nil for none.
	Count(route string, r cache.Result, e *cache.Entry)
}

// PipelineOptions wires a [Pipeline].
type PipelineOptions struct {
	Cascade     *Cascade
	Ledger      *ledger.Ledger                  // nil is one for this replica only
	HighShare   func() float64                  // the share of a tenant's requests per minute that may be high, live; 0 is all
	Store       Store                           // nil stores no answers
	Generations *Generations                    // nil shares none
	CacheConfig func(route string) cache.Config // live
	Salt        func(tenant string) string      // separates tenants in the engines' prefix caches; nil does not

	IsShed  func(err error) bool       // whether an error is a refusal of admission
	OnPanic func(id string, value any) // is called after a panic in a shared generation

	Base context.Context // parent of shared generations, which outlive single clients
}

// Pipeline answers requests, from their identity to the last byte of the answer, without knowledge of HTTP: it looks for a kept
// answer, joins identical requests in progress, enforces the limits of the tenant, calls the cascade, and keeps the answer if
// that is allowed. The answer goes to a [Sink], the details of the request into a [Record]. It is safe for concurrent use.
type Pipeline struct {
	*Cascade
	o        PipelineOptions
	generate func(ctx context.Context, r *Request, to Delivery) error // makes an answer: [Cascade.answer], but in tests of what is before it
	rejected rejectedKeys
}

// NewPipeline wires a pipeline.
func NewPipeline(o PipelineOptions) *Pipeline {
	if o.Ledger == nil {
		o.Ledger = ledger.New(ledger.Options{Now: o.Cascade.World.Now})
	}
	if o.Salt == nil {
		o.Salt = func(string) string { return "" }
	}
	o.Cascade.bookAudit = func(a *Metadata, route string, usd ledger.Nanos) {
		o.Ledger.Add(&ledger.Use{Began: a.Began, Tenant: a.Caller.Tenant, Route: route, Counts: ledger.Counts{AuditUSD: usd, DraftsSaved: -usd}})
	}
	return &Pipeline{Cascade: o.Cascade, o: o, generate: o.Cascade.answer}
}

// Record collects the details of a request for its headers, the log, metrics and traces. The pipeline only
// writes it. Until Answer returns, other goroutines may write to it.
type Record struct {
	Config      *plan.Config  // by which a draft is judged; nil if none was wanted
	Cache       cache.Result  // what came of the cache, "" where it was not asked
	Entry       *cache.Entry  // the answer, if it was not made for this request
	Receipt     *Receipt      // of the generation; nil if the cascade was not called
	LookedUpAt  time.Time     // start of the last look-up in the shared cache
	Lookup      time.Duration // its duration
	Limits      time.Duration // spent on the tenant's limits
	LimitStatus ledger.Status // of the tenant, after this request
	Demoted     bool          // from priority high: its tenant's share was used up
}

// CacheControl holds a request's cache directives (RFC 9111, section 5.2.1).
type CacheControl struct {
	NoStore      bool // the answer is neither stored nor read from the cache
	NoCache      bool // a fresh answer, which is stored
	OnlyIfCached bool // a cached answer or none
	HasMaxAge    bool // the answer may be as old as MaxAge
	MaxAge       time.Duration
}

// empty reports whether there are no directives.
func (c CacheControl) empty() bool { return c == CacheControl{} }

// Allows reports whether a cached answer is young enough.
func (c CacheControl) Allows(e *cache.Entry, now time.Time) bool {
	return !c.HasMaxAge || now.Sub(e.Created) <= c.MaxAge
}
