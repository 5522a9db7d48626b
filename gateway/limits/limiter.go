package limits

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redis/lookup"
	"github.com/foregate/foregate/internal/redis/script"
)

const defaultBudget = 15 * time.Millisecond

// Options are what a [Limiter] needs to know.
type Options struct {
	// Redis is where replicas count together; nil is alone, with the whole limit. Its timeouts bound a command, so
	// they should be short (100 ms), and it should not retry: a script that ran twice counts twice.
	Redis    redis.UniversalClient
	Replicas func() int           // how many there are, as last known; nil and less than 1 are 1
	Budget   func() time.Duration // the longest wait for Redis, live; nil and 0 are 15 ms

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// Limiter holds tenants to their limits. Its methods are safe for concurrent use.
type Limiter struct {
	redis    redis.UniversalClient
	replicas func() int
	budget   func() time.Duration
	log      zerolog.Logger
	metrics  *metrics
	now      func() time.Time

	scripts *script.Runner // of Redis
	asker   *lookup.Client

	mu             sync.Mutex
	tenants        tenants
	unknownRetries retryBudget // of callers that are refused before they enter

	corrections corrections
}

// New returns a limiter. Without [Limiter.Run] it counts as well, but does not settle tokens
// in Redis, and does not find back to a Redis that was away.
func New(o Options) *Limiter {
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Limiter{
		redis: o.Redis, scripts: script.NewRunner(o.Redis, limitScript), log: o.Logger, metrics: newMetrics(o.Registerer), now: o.Now,
		replicas: func() int { return 1 },
		budget:   func() time.Duration { return defaultBudget },
	}
	if o.Replicas != nil && o.Redis != nil {
		l.replicas = func() int { return max(1, o.Replicas()) }
	}
	if o.Budget != nil {
		l.budget = func() time.Duration {
			if d := o.Budget(); d > 0 {
				return d
			}
			return defaultBudget
		}
	}
	l.asker = l.newAsker()
	if o.Redis != nil {
		l.metrics.shared.Set(1)
	}
	return l
}

// Request is one request before it is let in.
type Request struct {
	Tenant  string // checked by the caller: it becomes part of a key
	Limit   Limit
	Tokens  int  // expected, of prompt and answer
	High    bool // it has priority high
	Retry   bool // its sender marked it as a retry
	HasSlot bool // it has a place already ([Limiter.Place])
}

// amounts are what a request is charged when it is let in.
func (a *Request) amounts() amounts {
	n := amounts{requests: 1, tokens: a.Tokens}
	if a.High {
		n.high = 1
	}
	return n
}

// Reservation is a request let in. Settle must be called once it is over.
type Reservation struct {
	Status
	Demoted bool // its tenant has used up its share of priority high: treat it as normal

	limiter *Limiter
	tenant  *tenant
	request Request
	shared  bool // counted in Redis
	high    bool // there also as one of priority high
	late    lateReply
	settled atomic.Bool
}

// AcquireSlot takes one of the tenant's concurrent places for a request that is not known yet, or refuses it with an [*Error].
// The request keeps it, and enters with Placed, until leave is called, once.
func (l *Limiter) AcquireSlot(a Request) (leave func(), err error) {
	if a.Limit.Concurrent <= 0 {
		return func() {}, nil
	}
	replicas, now := l.replicas(), l.now()
	l.mu.Lock()
	t := l.tenantOf(a, replicas, now)
	refused := t.acquireSlot(a, replicas)
	if refused != nil {
		l.attempt(t, a, now)
	}
	l.mu.Unlock()
	if refused != nil {
		l.metrics.limited.WithLabelValues(string(refused.Limit)).Inc()
		return nil, refused
	}
	return func() { l.leave(t, a) }, nil
}

// Reserve lets a request in or refuses it with an [*Error]. It waits no longer than the budget,
// and not at all for a tenant that has no limit per minute. ctx gives values only: a client
// that leaves does not take back what was asked.
func (l *Limiter) Reserve(ctx context.Context, a Request) (*Reservation, error) {
	a.Tokens = max(a.Tokens, 0)
	replicas, now := l.replicas(), l.now()
	g := &Reservation{limiter: l, request: a}
	err := l.begin(g, replicas, now)
	if err != nil {
		l.metrics.limited.WithLabelValues(string(err.Limit)).Inc()
		return nil, err
	}
	if !a.Limit.counted() {
		return g, nil
	}
	got, laws := l.count(ctx, g, replicas)
	g.Demoted = got.demoted
	g.Requests = requestWindow(a.Limit.RPM, laws.requests, got.requests)
	g.Tokens = tokenWindow(a.Limit.TPM, laws.tokens, got.tokens)
	if got.refused == "" {
		if g.Demoted {
			l.metrics.demoted.Inc()
		}
		return g, nil
	}
	l.leave(g.tenant, a)
	if !g.shared {
		l.mu.Lock()
		g.end(a.amounts().negative())
		l.mu.Unlock()
	}
	l.metrics.limited.WithLabelValues(string(got.refused)).Inc()
	return nil, refusal(a, g.Status, got, laws)
}

// AdviseRetry reports whether a client that is being refused may be invited to try again, and
// counts the invitation if so. Of late a tenant is invited at most a tenth as often as it sent
// first tries, and once where it sent fewer than ten. Each replica counts for itself. Callers
// that never entered, "" among them, have one budget together; retry says that such a caller
// was refused before.
func (l *Limiter) AdviseRetry(tenant string, retry bool) bool {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	budget := &l.unknownRetries
	if t := l.tenants.known(tenant); t != nil {
		budget = &t.retries
	} else if !retry {
		budget.first(now)
	}
	if !budget.advise(now) {
		l.metrics.stopped.Inc()
		return false
	}
	l.metrics.invited.Inc()
	return true
}

// refusal tells how long until the law would let the next in.
func refusal(a Request, s Status, got answer, w rates) *Error {
	e := &Error{Tenant: a.Tenant, Limit: got.refused, Max: a.Limit.RPM, Requested: 1, Wait: w.requests.wait(got.requests), Status: s}
	if got.refused == Tokens {
		e.Max, e.Requested, e.Wait = a.Limit.TPM, a.Tokens, w.tokens.wait(got.tokens)
	}
	return e
}

// begin does what needs no Redis: it counts the attempt and takes a place.
func (l *Limiter) begin(g *Reservation, replicas int, now time.Time) *Error {
	a := g.request
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tenantOf(a, replicas, now)
	g.tenant = t
	l.attempt(t, a, now)
	if a.Limit.TPM > 0 && a.Tokens > a.Limit.TPM {
		return &Error{Tenant: a.Tenant, Limit: Tokens, Max: a.Limit.TPM, Requested: a.Tokens, NeverFits: true, Status: g.Status}
	}
	if a.HasSlot {
		return nil
	}
	return t.acquireSlot(a, replicas)
}

// tenantOf is the tenant of a request; the caller holds the lock.
func (l *Limiter) tenantOf(a Request, replicas int, now time.Time) *tenant {
	var start rates // alone, a tenant that is new owes nothing
	if l.redis != nil {
		start = a.Limit.local(replicas)
	}
	return l.tenants.of(a.Tenant, start, now)
}

// attempt counts a request, once; the caller holds the lock.
func (l *Limiter) attempt(t *tenant, a Request, now time.Time) {
	if a.Retry {
		l.metrics.retry.Inc()
		return
	}
	l.metrics.first.Inc()
	t.retries.first(now)
}

// count asks Redis, or this replica's own buckets.
func (l *Limiter) count(ctx context.Context, g *Reservation, replicas int) (answer, rates) {
	a := g.request
	there, here := a.Limit.shared(), l.own(a.Limit, replicas)
	t := g.tenant
	var got answer
	var result string
	var owes unsynced
	if l.redis != nil {
		c := charge{amounts: a.amounts(), how: howAsk}
		if !l.asker.Away() { // else nobody is told
			l.mu.Lock()
			owes = t.takeUnsynced(there, here, replicas, l.now())
			l.mu.Unlock()
			c.unsynced = owes
		}
		got, result = l.lookup(ctx, keyLimit+a.Tenant, there, c, g.charged)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if result == resultShared {
		g.shared, g.high = true, a.High && !got.demoted
		t.applyRedis(got, there, here, replicas, l.now())
		return got, there
	}
	t.wasAway = t.wasAway || result == resultSkipped
	got = t.decide(a, here, l.now())
	t.hasUnsynced = t.hasUnsynced || owes != unsynced{} || l.redis != nil && result != resultBusy && got.refused == ""
	if result == resultBusy && got.refused == "" {
		g.shared = true
		l.correct(a.Tenant, correction{limit: a.Limit, amounts: amounts{requests: 1, tokens: a.Tokens}}) // Redis is well, and hears of it a little later
	}
	return got, here
}

// own are the laws of this replica's buckets: its share, or all where there is no Redis at
// all to share with.
func (l *Limiter) own(limit Limit, replicas int) rates {
	if l.redis == nil {
		return limit.shared()
	}
	return limit.local(replicas)
}

// leave gives back the place of a request, unless that is not the request's to give.
func (l *Limiter) leave(t *tenant, a Request) {
	if a.Limit.Concurrent > 0 && !a.HasSlot {
		l.mu.Lock()
		t.slotsUsed--
		l.mu.Unlock()
	}
}

// Settle ends a request that really used so many tokens of prompt and answer; less than 0 is
// unknown, and the estimate stands. It gives back no more than was taken, and never waits:
// Redis is told in the background. Further calls do nothing.
func (g *Reservation) Settle(used int) {
	var more amounts
	if used >= 0 && g.request.Limit.TPM > 0 {
		more.tokens = used - g.request.Tokens
	}
	g.close(more)
}

// Cancel ends a request that is not the tenant's after all, instead of [Grant.Settle]: what it
// was charged is given back.
func (g *Reservation) Cancel() { g.close(g.request.amounts().negative()) }

// close ends a request that came to so much beyond what it asked for.
func (g *Reservation) close(more amounts) {
	if g.settled.Swap(true) {
		return
	}
	l := g.limiter
	l.leave(g.tenant, g.request)
	if g.shared {
		if !g.high {
			more.high = 0
		}
		if more != (amounts{}) {
			l.correct(g.request.Tenant, correction{limit: g.request.Limit, amounts: more})
		}
		return
	}
	here := more
	if g.Demoted {
		here.high, more.high = 0, -1 // Redis may tell late that it charged that
	}
	if more == (amounts{}) || !g.request.Limit.counted() {
		return
	}
	w := l.own(g.request.Limit, l.replicas())
	l.mu.Lock()
	defer l.mu.Unlock()
	g.tenant.add(here, w, l.now())
	g.end(more)
}
