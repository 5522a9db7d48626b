package pipeline

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/openai"
)

const (
	// recentSlots and maxRecentBytes bound what is remembered: 16 MiB of bodies. With fewer slots, requests that are
	// asked all day fall to one more often, and push each other out.
	recentSlots    = 1024
	maxRecentBytes = 16 << 10 // of a body
)

// recentKeys remember requests that were answered from the cache a moment ago: one that comes again, byte for byte and
// from the same tenant, is not read and hashed again. Reading is a function of the body and of limits that do not
// change, and what was read is not written to. Each slot has the last one of those that fall to it.
type recentKeys struct {
	seed  maphash.Seed
	slots [recentSlots]atomic.Pointer[recentKey]
}

// recentKey is a request that was answered from the cache, and its key.
type recentKey struct {
	tenant  string
	request *openai.Request
	parts   cache.Parts // of the key, without the request
	key     cache.Key
}

func newRecentKeys() *recentKeys { return &recentKeys{seed: maphash.MakeSeed()} }

// slot is where a body of a tenant's is remembered. Who cannot see the seed cannot aim at another's.
func (r *recentKeys) slot(tenant string, body []byte) *atomic.Pointer[recentKey] {
	return &r.slots[(maphash.String(r.seed, tenant)^maphash.Bytes(r.seed, body))%recentSlots]
}

// find is the same request as it was read before, nil where it is not remembered.
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

// keep remembers a request and the key of these parts.
func (r *recentKeys) keep(tenant string, request *openai.Request, parts *cache.Parts, key cache.Key) {
	if cap(request.Body) > maxRecentBytes {
		return
	}
	next := &recentKey{tenant: tenant, request: request, parts: *parts, key: key}
	next.parts.Request = nil
	r.slot(tenant, request.Body).Store(next)
}

// keyOf is the key of a request that came before if all else that decides it is as it was.
func (r *recentKey) keyOf(parts *cache.Parts) (k cache.Key, ok bool) {
	if r == nil || !r.parts.Alike(parts) {
		return cache.Key{}, false
	}
	return r.key, true
}
