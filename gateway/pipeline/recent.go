package pipeline

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/openai"
)

const (
	// recentSlots and maxRecentBytes bound the table: 16 MiB of bodies. With fewer slots, frequent requests
	// share slots more often and displace each other.
	recentSlots    = 1024
	maxRecentBytes = 16 << 10 // of a body
)

// recentKeys remembers requests that were recently answered from the cache. If the same bytes arrive again
// from the same tenant, they are not parsed and hashed again. The result of parsing depends only on the body
// and on constant limits, and is not modified. Each slot holds the last of its requests.
type recentKeys struct {
	seed  maphash.Seed
	slots [recentSlots]atomic.Pointer[recentKey]
}

// recentKey is a request that was answered from the cache, with its key.
type recentKey struct {
	tenant  string
	request *openai.Request
	parts   cache.Parts // of the key, without the request
	key     cache.Key
}

func newRecentKeys() *recentKeys { return &recentKeys{seed: maphash.MakeSeed()} }

// slot returns the slot of a tenant's body. The seed is secret, so nobody can aim at the slot of another
// request.
func (r *recentKeys) slot(tenant string, body []byte) *atomic.Pointer[recentKey] {
	return &r.slots[(maphash.String(r.seed, tenant)^maphash.Bytes(r.seed, body))%recentSlots]
}

// find returns the parsed form of the same request, nil if it is not remembered.
func (r *recentKeys) find(kind openai.Kind, tenant string, body []byte) *recentKey {
	if len(body) > maxRecentBytes {
		return nil
	}
	was := r.slot(tenant, body).Load()
	if was == nil || was.tenant != tenant || was.request.Kind != kind || !bytes.Equal(was.request.Body, body) {
		return nil
	}
	return was
}

// remember keeps the request's key. The request's own body is reused after its end.
func (q *request) remember() {
	if len(q.Body.Body) <= maxRecentBytes {
		q.p.recent.keep(q.Caller.Tenant, q.Body.Clone(), &q.share.parts, q.share.key)
	}
}

// keep remembers a request with the key of these parts.
func (r *recentKeys) keep(tenant string, request *openai.Request, parts *cache.Parts, key cache.Key) {
	if cap(request.Body) > maxRecentBytes {
		return
	}
	next := &recentKey{tenant: tenant, request: request, parts: *parts, key: key}
	next.parts.Request = nil
	r.slot(tenant, request.Body).Store(next)
}

// keyOf returns the key of a remembered request, if the other parts of the key are the same as before.
func (r *recentKey) keyOf(parts *cache.Parts) (k cache.Key, ok bool) {
	if r == nil || !r.parts.Alike(parts) {
		return cache.Key{}, false
	}
	return r.key, true
}
