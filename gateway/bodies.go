package gateway

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// bodies is a weighted semaphore for the memory of request bodies, and for places of requests. A tenant gets at most twice of
// what it leaves free: alone two thirds. It is safe for concurrent use.
type bodies struct {
	refused *prometheus.CounterVec

	mu       sync.Mutex
	requests quota // requests in progress, from before their body is read
	bytes    quota // reserved for their bodies
	tenants  map[string]*holding
}

// quota is what all tenants share.
type quota struct{ total, used int64 }

// holding is what one tenant holds. It is forgotten with the tenant's last body.
type holding struct{ bodies, requests, bytes int64 }

// shortage refuses a request whose body finds no room.
type shortage struct {
	what     string // requests or bytes
	ofTenant bool   // the tenant holds too much of it; otherwise the others do
	total    int64
}

// Error implements error.
func (s *shortage) Error() string {
	return fmt.Sprintf("the body is refused: %s, the limit is %d", s.reason(), s.total)
}

// reason is the label of the refusal.
func (s *shortage) reason() string {
	if s.ofTenant {
		return "tenant_" + s.what
	}
	return s.what
}

func newBodies(l Limits, reg prometheus.Registerer) *bodies {
	f := promauto.With(reg)
	b := &bodies{
		requests: quota{total: int64(l.InFlight)}, bytes: quota{total: l.Bodies}, tenants: map[string]*holding{},
		refused: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_upload_refused_total",
			Help: "Requests refused before their whole body was read, by what was short. Reasons of a tenant concern that tenant's own share.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{"requests", "bytes", "tenant_requests", "tenant_bytes"} {
		b.refused.WithLabelValues(reason)
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "foregate_upload_bytes", Help: "Bytes reserved for request bodies."}, func() float64 {
		_, bytes := b.usage()
		return float64(bytes)
	})
	return b
}

// usage is what all requests hold now.
func (b *bodies) usage() (requests, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests.used, b.bytes.used
}

// take adds n to what a tenant holds of a quota, or refuses it. b.mu is held.
func (b *bodies) take(q *quota, held *int64, n int64, what string) error {
	left, others := q.total-q.used-n, q.used-*held
	if left >= 0 && (*held == 0 || *held+n <= 2*left) {
		q.used += n
		*held += n
		return nil
	}
	err := &shortage{what: what, ofTenant: *held > 0 && others <= *held+n, total: q.total}
	b.refused.WithLabelValues(err.reason()).Inc()
	return err
}

// begin takes a place for a request, whose client claims so many bytes of its body: a claim that does not fit is refused,
// and none is charged. −1 is no claim.
func (b *bodies) begin(tenant string, claimed int64) (*body, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.tenants[tenant]
	if h == nil {
		h = &holding{}
	}
	if claimed > 0 {
		if err := b.take(&b.bytes, &h.bytes, claimed, "bytes"); err != nil {
			return nil, err
		}
		b.bytes.used, h.bytes = b.bytes.used-claimed, h.bytes-claimed
	}
	if err := b.take(&b.requests, &h.requests, 1, "requests"); err != nil {
		return nil, err
	}
	h.bodies++
	b.tenants[tenant] = h
	return &body{of: b, tenant: tenant, holding: h}, nil
}

// body is the room for one body. The request has it until release, and who has retained it for as long.
type body struct {
	of      *bodies
	tenant  string
	holding *holding
	bytes   int64
	keepers int // that outlive the request
	over    bool
}

// charge sets the bytes of the body and of what is made of it, before more memory is taken or after some was given back.
func (b *body) charge(bytes int64) error {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	more := bytes - b.bytes
	if more > 0 {
		if err := b.of.take(&b.of.bytes, &b.holding.bytes, more, "bytes"); err != nil {
			return err
		}
	} else {
		b.of.bytes.used += more
		b.holding.bytes += more
	}
	b.bytes = bytes
	return nil
}

// borrow charges bytes beside those of the body, until the next charge. The error is errTranslation if not even an idle gateway
// would lend them, so that a retry cannot help.
func (b *body) borrow(bytes int64) error {
	err := b.charge(b.bytes + bytes)
	if err != nil && 3*(b.bytes+bytes) > 2*b.of.bytes.total {
		return errTranslation
	}
	return err
}

// Retain keeps the memory until released is called.
func (b *body) Retain() (released func()) {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.keepers++
	return func() {
		b.of.mu.Lock()
		defer b.of.mu.Unlock()
		b.keepers--
		b.free()
	}
}

// release gives the request's place back, and the bytes if nobody has retained them.
func (b *body) release() {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.over = true
	b.of.requests.used--
	b.holding.requests--
	b.free()
}

// free gives the bytes back with their last user. of.mu is held.
func (b *body) free() {
	if !b.over || b.keepers > 0 {
		return
	}
	b.of.bytes.used -= b.bytes
	b.holding.bytes -= b.bytes
	if b.holding.bodies--; b.holding.bodies == 0 {
		delete(b.of.tenants, b.tenant)
	}
}
