package pipeline

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
)

// shareKey is the key under which others may get an answer, and what an answer under it must be.
type shareKey struct {
	key       cache.Key
	parts     cache.Parts // of the key, without the request
	plan      plan.Plan   // by which the key was made
	cacheable bool        // answers may be looked up and kept
	known     bool        // the key is known from the last time
}

// make makes the promise of a request. It reports false where the cache has no part in that.
func (p *shareKey) make(q *request) bool {
	o := &q.p.o
	if o.Store == nil || !q.cfg.Enabled || q.CacheControl.NoStore || q.Body.Unshareable() != "" || q.wantsOwnSample() {
		return false
	}
	p.plan = o.Cascade.Plan(q.Route, q.draftConfig, q.Body.Request, q.Tier)
	p.parts = cache.Parts{Kind: q.Body.Kind.Path(), Tenant: q.Caller.Tenant, Route: q.Route.Model, RAG: q.rag, Tier: string(p.plan.Tier)}
	if p.plan.Judged { // who is no longer content with what was accepted before does not get it any more
		p.parts.Tier = string(plan.Auto) + " " + q.draftConfig.Fingerprint()
	}
	p.parts.Draft, p.parts.Target = o.ServedModels(q.Route.Model)
	p.parts.Epochs, p.cacheable = o.Store.Epochs(q.Caller.Tenant, q.Route.Model)
	if p.key, p.known = q.Body.recent.keyOf(&p.parts); p.known {
		return true
	}
	whole := p.parts
	var err error
	whole.Request, err = q.Body.Canonical(make([]byte, 0, len(q.Body.Body)))
	p.key = cache.KeyOf(&whole)
	return err == nil // else it is no JSON that another parser would read alike: nothing is claimed of it
}

// wantsOwnSample reports whether the answer must be drawn from the target's law for this request alone.
func (q *request) wantsOwnSample() bool {
	return q.Body.Temperature > 0 && (q.draftConfig.Mode == plan.ModeVerify || q.Demand == plan.DemandExact)
}

// allows says whether an answer is of the tier that its key promises. The key and the answer are made under one
// config, so it always is; but a draft must not be taken for the target's.
func (p *shareKey) allows(e *cache.Entry) bool {
	return p.parts.Tier != string(plan.Target) || e.Tier == string(plan.Target)
}

// ragDigest is the digest of the retrieved context: as told, else over the documents in the body.
func ragDigest(told string, r *openai.Request) string {
	if told != "" {
		return told
	}
	if docs := r.Documents(); docs != nil {
		sum := sha256.Sum256(docs)
		return hex.EncodeToString(sum[:])
	}
	return ""
}

// fromWarmup reports whether an answer has words of a draft that only the threshold of a warm-up stands by.
func fromWarmup(e *cache.Entry) bool { return e.Accepted > 0 && receipt.IsWarmup(e.Acceptance) }
