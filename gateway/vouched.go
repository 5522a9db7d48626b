package gateway

import (
	"sync"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
)

// unproven reports whether an answer has words of a draft that only the threshold of a warm-up stands by.
func unproven(e *cache.Entry) bool { return e.Accepted > 0 && receipt.OfWarmup(e.Acceptance) }

// keepOnceVouched keeps a draft of a warm-up when its audit finds that the target stands by it, and never otherwise.
func (x *exchange) keepOnceVouched(e *cache.Entry) {
	if x.vouched == nil {
		return
	}
	store, key, ttl := x.g.opts.Cache, x.key, x.cfg.TTL
	x.vouched.then(func() { store.Put(key, e, ttl, nil) })
}

// vouching is whom an audit tells that the target stands by the answer; nil where no answer waits for that.
func (x *exchange) vouching() func() {
	if !x.keeps || x.judging.Mode != plan.ModeRisk || !x.judging.Risk.Warmup {
		return nil
	}
	x.vouched = &vouched{}
	return x.vouched.tell
}

// vouched is whether an audit has found that the target stands by an answer. The audit may be over before the answer is, or
// after.
type vouched struct {
	mu   sync.Mutex
	good bool
	next func()
}

// tell says that it has.
func (v *vouched) tell() {
	v.mu.Lock()
	v.good = true
	next := v.next
	v.next = nil
	v.mu.Unlock()
	if next != nil {
		next()
	}
}

// then calls next when it has; nothing calls next where it never does.
func (v *vouched) then(next func()) {
	v.mu.Lock()
	good := v.good
	if !good {
		v.next = next
	}
	v.mu.Unlock()
	if good {
		next()
	}
}
