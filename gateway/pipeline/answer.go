package pipeline

import (
	"context"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/internal/redis/lookup"
	"github.com/foregate/foregate/tiers/plan"
)

// request is a request in progress. It is answered from the cache, by an identical request's generation, or
// by the cascade.
type request struct {
	Request
	p      *Pipeline
	client Client
	record *Record

	cfg         cache.Config // settings at its arrival
	draftConfig plan.Config
	rag         string        // digest of the retrieved context
	patience    lookup.Waited // how long it has waited for Redis
	bypass      bool          // the cache is not used
	share       shareKey      // zero with bypass
	sink        sink          // of an answer that is made for this request alone
}

// Answer answers a request in the cheapest way: with a cached answer, with that of an identical request, or
// by the cascade. ctx ends when the client leaves. After an error the client has received nothing, or only a
// part.
func (p *Pipeline) Answer(ctx context.Context, in Request, to Client, record *Record) error {
	return p.newRequest(in, to, record).answer(ctx)
}

// newRequest reads the settings of a request, and decides what the cache may do for it.
func (p *Pipeline) newRequest(in Request, to Client, record *Record) *request {
	q := &request{Request: in, p: p, client: to, record: record, rag: ragDigest(in.Caller.RAGHash, in.Body)}
	q.cfg, q.draftConfig = p.o.CacheConfig(in.Route.Model), in.Route.Config().Stricter(in.Demand)
	record.Config = &q.draftConfig
	q.bypass = !q.share.make(q)
	if q.share.cacheable && q.share.plan.Judged && p.rejected.has(q.share.key) {
		q.share.plan = plan.Plan{Tier: plan.Target, Reason: plan.ReasonRejectedBefore}
	}
	return q
}

func (q *request) answer(ctx context.Context) error {
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
	ctx = lookup.WithWaited(ctx, &q.patience)
	if q.coalesces() {
		if s := q.p.o.Generations.join(q.generation()); s != nil {
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

// local returns a usable copy in this replica, nil for none.
func (q *request) local() *cache.Entry {
	if !q.share.cacheable || q.CacheControl.NoCache {
		return nil
	}
	now := q.p.o.World.Now()
	e, ok := q.p.o.Store.Local(q.share.key)
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
	return generationID{Key: q.share.key, Class: int8(q.Caller.Priority), Stream: q.Body.Stream}
}

// lookUp reads the shared cache, if the request allows it. The entry is nil if none is usable; the result
// says why.
func (q *request) lookUp(ctx context.Context) (*cache.Entry, cache.Result) {
	switch {
	case !q.share.cacheable:
		return nil, cache.ResultAway
	case q.CacheControl.NoCache:
		return nil, cache.ResultMiss
	}
	w := q.p.o.World
	began := w.Now()
	e, result := q.p.o.Store.Look(ctx, q.share.key)
	now := w.Now()
	q.record.LookedUpAt, q.record.Lookup = began, now.Sub(began)
	if e != nil && !q.CacheControl.Allows(e, now) {
		return nil, cache.ResultMiss
	}
	return e, result
}

// count counts the cache result, once per request.
func (q *request) count(result cache.Result, e *cache.Entry) {
	q.record.Cache = result
	if q.p.o.Store != nil {
		q.p.o.Store.Count(q.Route.Model, result, e)
	}
}

// generateAlone lets the cascade answer, and stores the answer if that is allowed.
func (q *request) generateAlone(ctx context.Context, result cache.Result) error {
	q.count(result, nil)
	q.sink = sink{q.client, q.record}
	to := &q.sink
	if q.bypass || !q.share.cacheable {
		_, err := q.runCascade(ctx, ctx, cascadeCall{sink: to})
		return err
	}
	g := q.newGeneration()
	rc, err := q.runCascade(ctx, ctx, cascadeCall{sink: to, observer: &g.recorder, confirmation: g.awaits()})
	if err != nil {
		return err
	}
	if e, whole := g.recorder.entry(rc, g.p.o.World.Now()); e != nil {
		g.settle(e, whole, func(_ *cache.Entry, keep func(then func())) {
			if keep != nil {
				keep(nil)
			}
		})
	}
	return nil
}
