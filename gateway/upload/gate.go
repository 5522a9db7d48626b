package upload

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are the limits of a [Gate]; each is at least 1.
type Options struct {
	Uploads    int   // concurrent uploading bodies
	Requests   int   // concurrent requests in progress whose body was read
	Bytes      int64 // reserved for the bodies of both
	Registerer prometheus.Registerer
}

// Gate admits request bodies. It is safe for concurrent use.
type Gate struct {
	metrics *metrics

	mu       sync.Mutex
	uploads  quota
	requests quota
	bytes    quota
	tenants  map[string]*holding // only tenants that hold something
	spare    *holding            // of the last tenant that was forgotten, for the next; nil: none
}

// holding is what one tenant holds.
type holding struct {
	bodies   int64 // not released; with the last one the tenant is forgotten
	uploads  int64
	requests int64
	bytes    int64
}

// New returns a gate.
func New(o Options) *Gate {
	g := &Gate{
		uploads: quota{total: int64(o.Uploads)}, requests: quota{total: int64(o.Requests)}, bytes: quota{total: o.Bytes},
		tenants: map[string]*holding{},
	}
	g.metrics = newMetrics(o.Registerer, g)
	return g
}

// Begin admits a tenant's body, or refuses it with an [*Error]. A body that claims more bytes than could be
// reserved now is refused at once; the claim itself reserves nothing, and is 0 or less if unknown.
// [Body.Release] must be called at the end.
func (g *Gate) Begin(tenant string, claimed int64) (*Body, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.tenants[tenant]
	if h == nil {
		if h, g.spare = g.spare, nil; h == nil {
			h = &holding{}
		}
	}
	if err := g.mayBegin(h, claimed); err != nil {
		return nil, g.refused(tenant, err)
	}
	if h.bodies == 0 {
		g.tenants[tenant] = h
	}
	b := &Body{gate: g, tenant: tenant, holding: h}
	h.bodies++
	h.uploads++
	g.uploads.used++
	return b, nil
}

// mayBegin decides about a body of a tenant. A body is not read if its request could not run afterwards, or
// if there are no bytes for it.
func (g *Gate) mayBegin(h *holding, claimed int64) *Error {
	if err := g.uploads.refusal(h.uploads, 1, TenantUploads, Uploads); err != nil {
		return err
	}
	if err := g.requests.refusal(h.requests, 1, TenantRequests, Requests); err != nil {
		return err
	}
	return g.bytes.refusal(h.bytes, max(claimed, 0), TenantBytes, Bytes)
}

// refusal returns judge's decision as an error, nil if it is granted.
func (q quota) refusal(inUse, n int64, share, all Reason) *Error {
	switch q.judge(inUse, n) {
	case overShare:
		return &Error{Reason: share, Limit: q.total}
	case spent:
		return &Error{Reason: all, Limit: q.total}
	}
	return nil
}

func (g *Gate) refused(tenant string, err *Error) error {
	err.Tenant = tenant
	g.metrics.refused.WithLabelValues(string(err.Reason)).Inc()
	return err
}

// state is the state of a body.
type state uint8

const (
	uploading state = iota // it holds an upload slot
	underWay               // it holds a request slot
	over                   // it holds nothing
)

// Body is one request's body, from before its first byte until the end of its request. Its methods are safe
// for concurrent use.
type Body struct {
	gate    *Gate
	tenant  string
	holding *holding
	state   state
	bytes   int64
	keepers int     // users of the body that outlive its request
	buffer  *buffer // its memory; nil for none, and for memory that is not reused
}

// Charge raises the reserved bytes of the body, or refuses that with an [*Error]. It is called before the
// memory is allocated.
func (b *Body) Charge(bytes int64) error {
	g := b.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	more := bytes - b.bytes
	if more <= 0 || b.state == over {
		return nil
	}
	if err := g.bytes.refusal(b.holding.bytes, more, TenantBytes, Bytes); err != nil {
		return g.refused(b.tenant, err)
	}
	b.bytes = bytes
	b.holding.bytes += more
	g.bytes.used += more
	return nil
}

// Borrow reserves bytes in addition to those of [Body.Charge] until returned is called, once, which is before [Body.Release];
// or it refuses that with an [*Error].
func (b *Body) Borrow(bytes int64) (returned func(), err error) {
	g := b.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.bytes.refusal(b.holding.bytes, bytes, TenantBytes, Bytes); err != nil {
		return nil, g.refused(b.tenant, err)
	}
	b.holding.bytes += bytes
	g.bytes.used += bytes
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		b.holding.bytes -= bytes
		g.bytes.used -= bytes
	}, nil
}

// Grow returns memory of [Capacity](size) bytes that begins with what have has, which Grow returned before and
// which must not be used any more. The memory is valid until the request has ended and nothing retains the
// body; then it is reused for another request.
func (b *Body) Grow(have []byte, size int64) []byte {
	memory, next := newBuffer(size)
	copy(memory, have)
	b.gate.mu.Lock()
	last := b.buffer
	b.buffer = next
	b.gate.mu.Unlock()
	if last != nil {
		last.free()
	}
	return memory[:len(have)]
}

// Received reports that the whole body was read. Its upload slot is released, and it takes a request slot, or
// is refused with an [*Error].
func (b *Body) Received() error {
	g := b.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.state != uploading {
		return nil
	}
	if err := g.requests.refusal(b.holding.requests, 1, TenantRequests, Requests); err != nil {
		return g.refused(b.tenant, err)
	}
	b.leaveState()
	b.state = underWay
	b.holding.requests++
	g.requests.used++
	return nil
}

// Retain keeps the body and its bytes reserved after its request, until released is called, once.
func (b *Body) Retain() (released func()) {
	g := b.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.state == over && b.keepers == 0 {
		return func() {} // it is released already
	}
	b.keepers++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		b.keepers--
		b.free()
	}
}

// Release ends the request: it releases everything that the body holds, except bytes that Retain keeps.
// Further calls do nothing.
func (b *Body) Release() {
	g := b.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.state == over {
		return
	}
	b.leaveState()
	b.state = over
	b.free()
}

// free releases the bytes and the memory when nothing uses the body any more; the caller holds the lock.
func (b *Body) free() {
	if b.state != over || b.keepers > 0 {
		return
	}
	b.gate.bytes.used -= b.bytes
	b.holding.bytes -= b.bytes
	b.bytes = 0
	if b.holding.bodies--; b.holding.bodies == 0 {
		delete(b.gate.tenants, b.tenant)
		b.gate.spare = b.holding // it is zero again, and no body holds on to it
	}
	if b.buffer != nil {
		b.buffer.free()
		b.buffer = nil
	}
}

// leaveState releases the slot of the body's state; the caller holds the lock.
func (b *Body) leaveState() {
	switch b.state {
	case uploading:
		b.holding.uploads--
		b.gate.uploads.used--
	case underWay:
		b.holding.requests--
		b.gate.requests.used--
	}
}

// Usage is what a [Gate] has handed out.
type Usage struct {
	Uploads, Requests int64
	Bytes             int64
	Tenants           int // tenants that hold something
}

// Usage returns the current use.
func (g *Gate) Usage() Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Usage{Uploads: g.uploads.used, Requests: g.requests.used, Bytes: g.bytes.used, Tenants: len(g.tenants)}
}
