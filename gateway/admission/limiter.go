package admission

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxTenants bounds the buckets of one replica. Above it the tenant that was
// silent longest starts anew with a full bucket.
const maxTenants = 10_000

// Limiter gives every tenant a bucket of its requests per minute. A bucket
// holds one minute's worth, so a tenant may spend its minute at once, and
// refills evenly. It knows only this replica's requests. It is safe for
// concurrent use and the zero value works.
type Limiter struct {
	mu      sync.Mutex
	tenants map[string]*list.Element // of *bucket
	recent  list.List                // most recently asked first
}

type bucket struct {
	tenant string
	rpm    int
	rate   *rate.Limiter
}

// Allow takes one of tenant's rpm requests at now, or takes nothing and says
// how long to wait for one. An rpm of 0 is unlimited.
func (l *Limiter) Allow(tenant string, rpm int, now time.Time) (wait time.Duration, ok bool) {
	if rpm <= 0 {
		return 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucket(tenant, rpm, now)
	r := b.rate.ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait, false
	}
	return 0, true
}

// bucket finds or makes tenant's bucket and sets it to rpm; l.mu is held.
func (l *Limiter) bucket(tenant string, rpm int, now time.Time) *bucket {
	if e, ok := l.tenants[tenant]; ok {
		l.recent.MoveToFront(e)
		b := e.Value.(*bucket)
		if b.rpm != rpm {
			b.rpm = rpm
			b.rate.SetLimitAt(now, perMinute(rpm))
			b.rate.SetBurstAt(now, rpm)
		}
		return b
	}
	if l.tenants == nil {
		l.tenants = map[string]*list.Element{}
	}
	if l.recent.Len() >= maxTenants {
		oldest := l.recent.Back()
		l.recent.Remove(oldest)
		delete(l.tenants, oldest.Value.(*bucket).tenant)
	}
	b := &bucket{tenant: tenant, rpm: rpm, rate: rate.NewLimiter(perMinute(rpm), rpm)}
	l.tenants[tenant] = l.recent.PushFront(b)
	return b
}

func perMinute(n int) rate.Limit { return rate.Limit(float64(n) / 60) }
