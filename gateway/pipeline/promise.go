package pipeline

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
)

// promise is the key under which others may get an answer, and what an answer under it must be.
type promise struct {
	key    cache.Key
	parts  cache.Parts // of the key, without the request
	plan   plan.Plan   // by which the key was made
	keeps  bool        // answers may be looked up and kept
	recent bool        // the key is known from the last time
}

// promised is the promise of a request, nil where the cache has no part in it.
func (q *request) promised() *promise {
	o := &q.p.o
	if o.Store == nil || !q.cfg.On || q.Control.NoStore || q.Body.Unshareable() != "" || q.wantsOwnSample() {
		return nil
	}
	made := &promise{
		plan:  o.Cascade.Plan(q.Route, q.judging, q.Body.Request, q.Tier),
		parts: cache.Parts{Kind: q.Body.Kind.Path(), Tenant: q.Caller.Tenant, Route: q.Route.Model, RAG: q.rag},
	}
	made.parts.Tier = string(made.plan.Tier)
	if made.plan.Judged { // who is no longer content with what was accepted before does not get it any more
		made.parts.Tier = string(plan.Auto) + " " + q.judging.Judged()
	}
	made.parts.Draft, made.parts.Target = o.Served(q.Route.Model)
	made.parts.Epochs, made.keeps = o.Store.Epochs(q.Caller.Tenant, q.Route.Model)
	if made.key, made.recent = q.Body.recent.keyOf(&made.parts); made.recent {
		return made
	}
	whole := made.parts
	var err error
	if whole.Request, err = o.Canonical(q.Body.Request, make([]byte, 0, len(q.Body.Body))); err != nil {
		return nil // no JSON that another parser would read alike: nothing is claimed of it
	}
	made.key = cache.KeyOf(&whole)
	return made
}

// wantsOwnSample reports whether the answer must be drawn from the target's law for this request alone.
func (q *request) wantsOwnSample() bool {
	return q.Body.Temperature > 0 && (q.judging.Mode == plan.ModeVerify || q.Stricter == plan.DemandExact)
}

// planned is the plan that the key was made by, nil where the answer is for this request alone.
func (p *promise) planned() *plan.Plan {
	if p == nil {
		return nil
	}
	return &p.plan
}

// fits says whether an answer is of the tier that its key promises. The key and the answer are made under one
// config, so it always is; but a draft must not be taken for the target's.
func (p *promise) fits(e *cache.Entry) bool {
	return p.parts.Tier != string(plan.Target) || e.Tier == string(plan.Target)
}

// ragOf is the digest of the retrieved context: as told, else over the documents in the body.
func ragOf(told string, r *openai.Request) string {
	if told != "" {
		return told
	}
	if docs := r.Documents(); docs != nil {
		sum := sha256.Sum256(docs)
		return hex.EncodeToString(sum[:])
	}
	return ""
}

// unproven reports whether an answer has words of a draft that only the threshold of a warm-up stands by.
func unproven(e *cache.Entry) bool { return e.Accepted > 0 && receipt.OfWarmup(e.Acceptance) }
