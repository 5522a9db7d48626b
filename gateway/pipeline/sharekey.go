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
	key       cache.Key
	tier      string    // of the key
	plan      plan.Plan // from which the key was made
	cacheable bool      // answers may be read and stored
}

// make computes the key of a request. It returns false if the cache is not used.
func (p *shareKey) make(q *request) bool {
	o := &q.p.o
	if o.Store == nil || !q.cfg.Enabled || q.CacheControl.NoStore || q.Body.Unshareable() != "" || q.wantsOwnSample() {
		return false
	}
	p.plan = o.Cascade.Plan(q.Route, q.draftConfig, q.Body, q.Tier)
	p.tier = string(p.plan.Tier)
	if p.plan.Judged { // with a stricter setting, answers that were accepted before are not served
		p.tier = string(plan.Auto) + " " + q.draftConfig.Fingerprint()
	}
	digest, err := q.Body.Digest()
	parts := cache.Parts{
		Kind: q.Body.Kind.Path(), Tenant: q.Caller.Tenant, Route: q.Route.Model, RAG: q.rag, Tier: p.tier,
		Draft: q.Route.Serves.Draft, Target: q.Route.Serves.Target, Request: digest[:],
	}
	parts.Epochs, p.cacheable = o.Store.Epochs(q.Caller.Tenant, q.Route.Model)
	p.key = cache.KeyOf(&parts)
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
	return p.tier != string(plan.Target) || e.Tier == string(plan.Target)
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
