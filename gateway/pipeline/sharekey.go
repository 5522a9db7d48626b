package pipeline

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// shareKey is the key of a shareable answer, with what the key promises about the answer.
type shareKey struct {
	key        cache.Key
	parts      cache.Parts // of the key, without the request
	plan       plan.Plan   // from which the key was made
	cacheable  bool        // answers may be read and stored
	fromRecent bool        // the key is remembered
}

// make computes the key of a request. It returns false if the cache is not used.
func (p *shareKey) make(q *request) bool {
	o := &q.p.o
	if o.Store == nil || !q.cfg.Enabled || q.CacheControl.NoStore || q.Body.Unshareable() != "" || q.wantsOwnSample() {
		return false
	}
	p.plan = o.Cascade.Plan(q.Route, q.draftConfig, q.Body.Request, q.Tier)
	p.parts = cache.Parts{Kind: q.Body.Kind.Path(), Tenant: q.Caller.Tenant, Route: q.Route.Model, RAG: q.rag, Tier: string(p.plan.Tier)}
	if p.plan.Judged { // with a stricter setting, answers that were accepted before are not served
		p.parts.Tier = string(plan.Auto) + " " + q.draftConfig.Fingerprint()
	}
	p.parts.Draft, p.parts.Target = q.Route.Serves.Draft, q.Route.Serves.Target
	p.parts.Epochs, p.cacheable = o.Store.Epochs(q.Caller.Tenant, q.Route.Model)
	if p.key, p.fromRecent = q.Body.recent.keyOf(&p.parts); p.fromRecent {
		return true
	}
	whole := p.parts
	digest, err := q.Body.Digest()
	whole.Request = digest[:]
	p.key = cache.KeyOf(&whole)
	return err == nil // otherwise other JSON parsers could read the body differently, so it is not shared
}

// wantsOwnSample reports whether the answer must be sampled from the target's distribution for this request
// alone.
func (q *request) wantsOwnSample() bool {
	return q.Body.Temperature > 0 && (q.draftConfig.IsExact() || q.Demand == plan.DemandExact)
}

// allows reports whether an answer's tier is the one that its key promises. Key and answer are made under one
// config, so it always is; the check ensures that a draft is never taken for the target's answer.
func (p *shareKey) allows(e *cache.Entry) bool {
	return p.parts.Tier != string(plan.Target) || e.Tier == string(plan.Target)
}

// ragDigest is the digest of the retrieved context: the given one, else that of the documents in the body.
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
