package tiers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/tiers/openai"
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

// request is a request in progress. It is answered from the cache, by an identical request's generation, or by the
// cascade.
type request struct {
	*Request
	p      *Pipeline
	client Sink
	record *Record

	cfg       cache.Config // settings at its arrival
	patience  calls.Waited // how long it has waited for Redis
	bypass    bool         // the cache is not used
	key       cache.Key    // zero with bypass
	tier      string       // of the key
	cacheable bool         // answers may be read and stored
}

// Answer answers a request in the cheapest way: with a cached answer, with that of an identical request, or by the cascade.
// ctx ends when the client leaves. After an error the client has received nothing, or only a part.
func (p *Pipeline) Answer(ctx context.Context, in Arrival, to Sink, record *Record) error {
	q := p.newRequest(in, to, record)
	q.bypass = !q.makeKey()
	switch {
	case q.bypass && q.CacheControl.OnlyIfCached:
		q.count(cache.ResultBypass, nil)
		return ErrNotCached
	case q.bypass:
		return q.generateAlone(ctx, cache.ResultBypass)
	}
	if e := q.local(); e != nil {
		if served, err := q.serve(e, cache.ResultLocal); served {
			return err
		}
	}
	ctx = calls.WithWaited(ctx, &q.patience)
	if q.coalesces() {
		if s := p.o.Generations.join(q.generation()); s != nil {
			return q.share(ctx, s)
		}
	}
	e, result := q.lookUp(ctx)
	if e != nil {
		if served, err := q.serve(e, cache.ResultHit); served {
			return err
		}
		result = cache.ResultError
	}
	if q.CacheControl.OnlyIfCached {
		q.count(result, nil)
		return ErrNotCached
	}
	return q.generateAlone(ctx, result)
}

// newRequest takes a request up.
func (p *Pipeline) newRequest(in Arrival, to Sink, record *Record) *request {
	q := &request{Request: p.arrive(in, p.salt(in.Route.Model, in.Caller.Tenant)), p: p, client: to, record: record, cfg: p.o.CacheConfig(in.Route.Model)}
	record.Config = &q.Config
	return q
}

// makeKey computes the key of the request's answer. It returns false if the cache is not used.
func (rq *request) makeKey() bool {
	o, rt := &rq.p.o, rq.Arrival.Route
	if o.Store == nil || !rq.cfg.Enabled || rq.CacheControl.NoStore || rq.Body.Unshareable() != "" || rq.wantsOwnSample() {
		return false
	}
	rq.tier = rq.Plan.CacheTier(&rq.Config)
	digest, err := rq.Body.Digest()
	parts := cache.Parts{
		Kind: rq.Body.Kind.Path(), Tenant: rq.Caller.Tenant, Route: rt.Model, RAG: rq.RAG, Tier: rq.tier,
		Draft: rt.Serves.Draft, Target: rt.Serves.Target, Request: digest[:],
	}
	parts.Epochs, rq.cacheable = o.Store.Epochs(rq.Caller.Tenant, rt.Model)
	rq.key = cache.KeyOf(&parts)
	if err != nil {
		return false // other JSON parsers could read the body differently, so it is not shared
	}
	rq.Rejected = rq.cacheable && rq.Plan.Judged && rq.p.rejected.has(rq.key)
	return true
}

// wantsOwnSample reports whether the answer must be sampled from the target's distribution for this request alone.
func (rq *request) wantsOwnSample() bool {
	return rq.Body.Temperature > 0 && (rq.Config.IsExact() || rq.Demand.Mode == plan.DemandExact)
}

// allows reports whether an answer's tier is the one that its key promises. Key and answer are made under one
// config, so it always is; the check ensures that a draft is never taken for the target's answer.
func (rq *request) allows(e *cache.Entry) bool {
	return rq.tier != string(plan.Target) || e.Tier == string(plan.Target)
}

// local returns a usable copy in this replica, nil for none.
func (rq *request) local() *cache.Entry {
	if !rq.cacheable || rq.CacheControl.NoCache {
		return nil
	}
	now := rq.World.Now()
	e, ok := rq.p.o.Store.Local(rq.key)
	if !ok || !rq.CacheControl.Allows(e, now) || now.Sub(e.Created) > rq.cfg.TTL { // Redis may have dropped it meanwhile
		return nil
	}
	return e
}

// coalesces reports whether the request may wait for identical ones in progress.
func (rq *request) coalesces() bool {
	return rq.p.o.Generations != nil && rq.CacheControl.empty() && !rq.Body.Sampled()
}

// generation identifies the generation that identical requests share.
func (rq *request) generation() generationID {
	return generationID{Key: rq.key, Class: rq.class(), Stream: rq.Body.Stream}
}

// lookUp reads the shared cache, if the request allows it. The entry is nil if none is usable; the result
// says why.
func (rq *request) lookUp(ctx context.Context) (*cache.Entry, cache.Result) {
	switch {
	case !rq.cacheable:
		return nil, cache.ResultAway
	case rq.CacheControl.NoCache:
		return nil, cache.ResultMiss
	}
	w := rq.World
	began := w.Now()
	e, result := rq.p.o.Store.Look(ctx, rq.key)
	if result == cache.ResultAway { // nothing was asked, so there is no look-up to tell of
		return nil, result
	}
	now := w.Now()
	rq.Lookup = now.Sub(began)
	rq.record.LookedUpAt, rq.record.Lookup = began, rq.Lookup
	if e != nil && !rq.CacheControl.Allows(e, now) {
		return nil, cache.ResultMiss
	}
	return e, result
}

// count counts the cache result, once per request.
func (rq *request) count(result cache.Result, e *cache.Entry) {
	rq.record.Cache = result
	if rq.p.o.Store != nil {
		rq.p.o.Store.Count(rq.Body.Model, result, e)
	}
}

// generateAlone lets the cascade answer, and stores the answer if that is allowed.
func (rq *request) generateAlone(ctx context.Context, result cache.Result) error {
	rq.count(result, nil)
	to := call{Delivery: Delivery{Sink: rq.client}, alone: func() {}}
	if rq.bypass || !rq.cacheable {
		return rq.run(ctx, ctx, to)
	}
	g := rq.newGeneration()
	to.Observer, to.Confirmation = &g.recorder, g.awaits()
	if err := rq.run(ctx, ctx, to); err != nil {
		return err
	}
	if e, whole := g.recorder.entry(rq.Receipt, g.World.Now()); e != nil {
		g.settle(e, whole, func(_ *cache.Entry, keep func(then func())) {
			if keep != nil {
				keep(nil)
			}
		})
	}
	return nil
}

// call is a request's call to the cascade.
type call struct {
	Delivery

	alone func() // called before a fallback makes the answer, which goes to the request's own client alone
}

// run lets the cascade answer, within the tenant's limits. ctx belongs to the client; the generation runs until making
// ends.
func (rq *request) run(ctx, making context.Context, to call) (err error) {
	need := estimateOf(rq.Body)
	need.prices = rq.TokenPrices()
	reserved, err := rq.p.reserve(ctx, rq.Metadata, need, rq.record)
	if err != nil {
		return err
	}
	r := rq.Request
	defer func() { settle(reserved, need.used(r.Receipt), r.Receipt) }()
	if rq.Observe != nil {
		both := Observers{rq.Observe()}
		if to.Observer != nil {
			both = append(both, to.Observer)
		}
		to.Observer = both
	}
	err = rq.p.generate(making, r, to.Delivery)
	rq.record.Receipt = r.Receipt
	if err != nil && making.Err() == nil {
		err = rq.fallBack(ctx, to, err)
	}
	return err
}

// serve sends a cached answer. served is false if the answer cannot be read: then it counts as missing.
func (rq *request) serve(e *cache.Entry, result cache.Result) (served bool, err error) {
	whole, err := openai.ParseWhole(e.Answer)
	if err != nil || !rq.allows(e) {
		return false, nil
	}
	rq.count(result, e)
	rq.record.Entry = e
	now := rq.World.Now()
	h := ResponseHead{
		Stream: rq.Body.Stream, Tier: e.Tier, Acceptance: e.Acceptance, FromCache: true, Age: max(now.Sub(e.Created), 0),
		Timing: Timing{Cache: rq.Lookup, Total: now.Sub(rq.Arrival.Began)},
	}
	whole.Usage.Cached = whole.Usage.Prompt
	extra := extraOf(e, result, h.Age)
	f := openai.NewFramer(rq.Body.Kind, rq.ID, rq.Body.Model, e.Created.Unix()) // with this request's own id
	room, _ := bodies.Get().(*[]byte)
	defer bodies.Put(room)
	body := (*room)[:0]
	if rq.Body.Stream {
		body = f.WholeStream(body, whole, extra, rq.Body.IncludeUsage)
	} else {
		body = f.Whole(body, whole, extra)
	}
	h.Length = int64(len(body))
	if cap(body) <= maxPooledBody {
		*room = body
	}
	if err := rq.client.Begin(h); err != nil {
		return true, err
	}
	return true, rq.client.Write(body)
}

// extraOf is the object "foregate" of an answer that was not made for this request.
func extraOf(e *cache.Entry, result cache.Result, age time.Duration) []byte {
	word, rest, _ := strings.Cut(e.Acceptance, ";")
	b := openai.AppendQuote(append(make([]byte, 0, 192), `{"tier":`...), e.Tier)
	b = appendField(b, "accepted_tokens", int64(e.Accepted))
	b = appendField(b, "target_tokens", int64(e.Target))
	b = openai.AppendQuote(append(b, `,"acceptance":`...), word)
	for part := range strings.SplitSeq(rest, ";") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "phase":
			b = openai.AppendQuote(append(b, `,"phase":`...), value)
		case "reason":
			b = openai.AppendQuote(append(b, `,"reason":`...), value)
		case "score":
			if nats, err := strconv.ParseFloat(value, 64); err == nil {
				b = strconv.AppendFloat(append(b, `,"score":`...), nats, 'f', 3, 64)
			}
		}
	}
	b = openai.AppendQuote(append(b, `,"cache":`...), string(result))
	return append(appendField(b, "age_s", int64(age/time.Second)), '}')
}

func appendField(b []byte, name string, v int64) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	return strconv.AppendInt(b, v, 10)
}

// ragDigest is the digest of the retrieved context: the given one, else that of the documents in the body.
func ragDigest(told string, r *openai.Request) string {
	if told != "" {
		return told
	}
	if docs := r.Sent("documents"); docs != nil {
		sum := sha256.Sum256(docs)
		return hex.EncodeToString(sum[:])
	}
	return ""
}
