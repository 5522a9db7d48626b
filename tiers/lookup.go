package tiers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// request is a request in progress. It is answered from the cache, by an identical request's generation, or by the
// cascade.
type request struct {
	*Request
	p      *Pipeline
	client Client
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
func (p *Pipeline) Answer(ctx context.Context, in Arrival, to Client, record *Record) error {
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
			defer s.Depart()
			return q.follow(ctx, s)
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
func (p *Pipeline) newRequest(in Arrival, to Client, record *Record) *request {
	q := &request{Request: p.arrive(in), p: p, client: to, record: record, cfg: p.o.CacheConfig(in.Route.Model)}
	q.Salt = p.salt(in.Route.Model, in.Caller.Tenant)
	record.Config = &q.Config
	return q
}

// makeKey computes the key of the request's answer. It returns false if the cache is not used.
func (q *request) makeKey() bool {
	o, rt := &q.p.o, q.Arrival.Route
	if o.Store == nil || !q.cfg.Enabled || q.CacheControl.NoStore || q.Body.Unshareable() != "" || q.wantsOwnSample() {
		return false
	}
	q.tier = q.Plan.CacheTier(&q.Config)
	digest, err := q.Body.Digest()
	parts := cache.Parts{
		Kind: q.Body.Kind.Path(), Tenant: q.Caller.Tenant, Route: rt.Model, RAG: q.RAG, Tier: q.tier,
		Draft: rt.Serves.Draft, Target: rt.Serves.Target, Request: digest[:],
	}
	parts.Epochs, q.cacheable = o.Store.Epochs(q.Caller.Tenant, rt.Model)
	q.key = cache.KeyOf(&parts)
	if err != nil {
		return false // other JSON parsers could read the body differently, so it is not shared
	}
	q.Rejected = q.cacheable && q.Plan.Judged && q.p.rejected.has(q.key)
	return true
}

// wantsOwnSample reports whether the answer must be sampled from the target's distribution for this request alone.
func (q *request) wantsOwnSample() bool {
	return q.Body.Temperature > 0 && (q.Config.IsExact() || q.Demand == plan.DemandExact)
}

// allows reports whether an answer's tier is the one that its key promises. Key and answer are made under one
// config, so it always is; the check ensures that a draft is never taken for the target's answer.
func (q *request) allows(e *cache.Entry) bool {
	return q.tier != string(plan.Target) || e.Tier == string(plan.Target)
}

// local returns a usable copy in this replica, nil for none.
func (q *request) local() *cache.Entry {
	if !q.cacheable || q.CacheControl.NoCache {
		return nil
	}
	now := q.World.Now()
	e, ok := q.p.o.Store.Local(q.key)
	if !ok || !q.CacheControl.Allows(e, now) || now.Sub(e.Created) > q.cfg.TTL { // Redis may have dropped it meanwhile
		return nil
	}
	return e
}

// coalesces reports whether the request may wait for identical ones in progress.
func (q *request) coalesces() bool {
	return q.p.o.Generations != nil && q.CacheControl.empty() && !q.Body.Sampled()
}

// generation identifies the generation that identical requests share.
func (q *request) generation() generationID {
	return generationID{Key: q.key, Class: q.class(), Stream: q.Body.Stream}
}

// lookUp reads the shared cache, if the request allows it. The entry is nil if none is usable; the result
// says why.
func (q *request) lookUp(ctx context.Context) (*cache.Entry, cache.Result) {
	switch {
	case !q.cacheable:
		return nil, cache.ResultAway
	case q.CacheControl.NoCache:
		return nil, cache.ResultMiss
	}
	w := q.World
	began := w.Now()
	e, result := q.p.o.Store.Look(ctx, q.key)
	now := w.Now()
	q.Lookup = now.Sub(began)
	q.record.LookedUpAt, q.record.Lookup = began, q.Lookup
	if e != nil && !q.CacheControl.Allows(e, now) {
		return nil, cache.ResultMiss
	}
	return e, result
}

// count counts the cache result, once per request.
func (q *request) count(result cache.Result, e *cache.Entry) {
	q.record.Cache = result
	if q.p.o.Store != nil {
		q.p.o.Store.Count(q.Body.Model, result, e)
	}
}

// generateAlone lets the cascade answer, and stores the answer if that is allowed.
func (q *request) generateAlone(ctx context.Context, result cache.Result) error {
	q.count(result, nil)
	to := call{Delivery: Delivery{Sink: q.client}}
	if q.bypass || !q.cacheable {
		return q.run(ctx, ctx, to)
	}
	g := q.newGeneration()
	to.Observer, to.Confirmation = &g.recorder, g.awaits()
	if err := q.run(ctx, ctx, to); err != nil {
		return err
	}
	if e, whole := g.recorder.entry(q.Receipt, g.World.Now()); e != nil {
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

	// leave is called before a fallback makes the answer. It returns the sink of the request's own client, to whom alone
	// the answer goes; nil: no fallback may make it. A nil leave is that of a request that shares nothing.
	leave func() Sink
}

// startAnew gives the request to the cascade as it arrived: an audit of the attempt before still reads that one.
func (q *request) startAnew() {
	if q.Receipt != nil {
		anew := *q.Request
		anew.Receipt, anew.Served = nil, nil
		q.Request = &anew
	}
}

// run lets the cascade answer, within the tenant's limits. ctx belongs to the client; the generation runs until making
// ends.
func (q *request) run(ctx, making context.Context, to call) (err error) {
	need := estimateOf(q.Body)
	need.prices = q.TokenPrices()
	reserved, err := q.p.reserve(ctx, q.Metadata, need, q.record)
	if err != nil {
		return err
	}
	q.startAnew()
	r := q.Request
	defer func() { settle(reserved, need.used(r.Receipt), r.Receipt) }()
	if q.Observe != nil {
		both := Observers{q.Observe()}
		if to.Observer != nil {
			both = append(both, to.Observer)
		}
		to.Observer = both
	}
	err = q.p.generate(making, r, to.Delivery)
	q.record.Receipt = r.Receipt
	if err != nil && making.Err() == nil {
		err = q.fallBack(ctx, to, err)
	}
	return err
}

// serve sends a cached answer. served is false if the answer cannot be read: then it counts as missing.
func (q *request) serve(e *cache.Entry, result cache.Result) (served bool, err error) {
	whole, err := openai.ParseWhole(e.Answer)
	if err != nil || !q.allows(e) {
		return false, nil
	}
	q.count(result, e)
	q.record.Entry = e
	now := q.World.Now()
	h := ResponseHead{
		Stream: q.Body.Stream, Tier: e.Tier, Acceptance: e.Acceptance, FromCache: true, Age: max(now.Sub(e.Created), 0),
		Timing: Timing{Cache: q.Lookup, Total: now.Sub(q.Arrival.Began)},
	}
	whole.Usage.Cached = whole.Usage.Prompt
	extra := extraOf(e, result, h.Age)
	f := openai.NewFramer(q.Body.Kind, q.ID, q.Body.Model, e.Created.Unix()).WithNulls(q.Target.WritesNulls()) // with this request's own id
	room, _ := bodies.Get().(*[]byte)
	defer bodies.Put(room)
	body := (*room)[:0]
	if q.Body.Stream {
		body = f.WholeStream(body, whole, extra, q.Body.IncludeUsage)
	} else {
		body = f.Whole(body, whole, extra)
		h.Length = int64(len(body))
	}
	if cap(body) <= maxPooledBody {
		*room = body
	}
	if err := q.client.Begin(h); err != nil {
		return true, err
	}
	return true, q.client.Write(body)
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
