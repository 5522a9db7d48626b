package gateway

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/openai"
)

const (
	// repeatSlots and mostRepeat bound what is remembered: 16 MiB of bodies. With fewer slots, requests that are asked all
	// day fall to one more often, and push each other out.
	repeatSlots = 1024
	mostRepeat  = 16 << 10 // bytes of a body
)

// repeats remembers requests that were answered from the cache a moment ago: one that comes again, byte for byte and
// from the same tenant, is not read and hashed again. Reading is a function of the body and of limits that do not
// change, and what was read is not written to. Each slot has the last one of those that fall to it.
type repeats struct {
	seed  maphash.Seed
	slots [repeatSlots]atomic.Pointer[repeat]
}

// repeat is a request that was answered from the cache.
type repeat struct {
	tenant string
	req    *openai.Request
	parts  cache.Parts // of the key, without the request
	key    cache.Key
}

func newRepeats() *repeats { return &repeats{seed: maphash.MakeSeed()} }

// slot is where a body of a tenant's is remembered. Who cannot see the seed cannot aim at another's.
func (r *repeats) slot(tenant string, body []byte) *atomic.Pointer[repeat] {
	return &r.slots[(maphash.String(r.seed, tenant)^maphash.Bytes(r.seed, body))%repeatSlots]
}

// find is the same request as it was read before, nil where it is not remembered.
func (r *repeats) find(kind openai.Kind, tenant string, body []byte) *repeat {
	if len(body) > mostRepeat {
		return nil
	}
	was := r.slot(tenant, body).Load()
	if was == nil || was.tenant != tenant || was.req.Kind != kind || !bytes.Equal(was.req.Body, body) {
		return nil
	}
	return was
}

// keep remembers a request; its parts lack nothing but the request.
func (r *repeats) keep(tenant string, req *openai.Request, parts *cache.Parts, key cache.Key) {
	if cap(req.Body) > mostRepeat {
		return
	}
	next := &repeat{tenant: tenant, req: req, parts: *parts, key: key}
	next.parts.Request = nil
	r.slot(tenant, req.Body).Store(next)
}

// keyOf is the key of a repeated request if all else that decides it is as it was.
func (r *repeat) keyOf(parts *cache.Parts) (k cache.Key, ok bool) {
	if r == nil || !r.parts.Alike(parts) {
		return cache.Key{}, false
	}
	return r.key, true
}
