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

// Options configure a [Limiter].
type Options struct {
	// Redis is where replicas count together; nil: this replica alone has the whole limit. Its timeouts bound
	// a command, so they should be short (100 ms), and it should not retry: a repeated script counts twice.
	Redis    redis.UniversalClient
	Replicas func() int           // last known number; nil and less than 1 are 1
	Budget   func() time.Duration // longest wait for Redis, live; nil and 0 are 15 ms

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// Limiter enforces tenants' limits. Its methods are safe for concurrent use.
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
	unknownRetries retryBudget // of callers that are refused before Reserve

	corrections corrections

	unlimited Reservation // of all requests to which no limit applies; nobody writes to it
}

// New returns a limiter. Without [Limiter.Run] it counts, too, but does not settle tokens in Redis, and does
// not return to a Redis that was unavailable.
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
	return l
}

// Request is a request that asks for admission.
type Request struct {
	Tenant  string // checked by the caller: it becomes part of a key
	Limit   Limit
	Tokens  int  // expected, of prompts and answers
	Answers int  // that it asks for: each is one of the tenant's concurrent requests; 0 is 1
	High    bool // it has priority high
	Retry   bool // its client marked it as a retry
	HasSlot bool // it has a slot already ([Limiter.AcquireSlot])
}

// amounts are the charges for an admitted request.
func (a *Request) amounts() amounts {
	n := amounts{requests: 1, tokens: a.Tokens}
	if a.High {
		n.high = 1
	}
	return n
}

// Reservation is an admitted request. Settle must be called when it ends. The zero value is that of a request
// without limits.
type Reservation struct {
	Status
	Demoted bool // its tenant has used up its share of priority high: treat it as normal

	limiter *Limiter // nil: no limit applies, and there is nothing to settle
	tenant  *tenant
	request Request
	slots   int  // that it has taken, besides the one of [Limiter.AcquireSlot]
	shared  bool // counted in Redis
	high    bool // there also as one of priority high
	settled atomic.Bool
}

// AcquireSlot takes one of the tenant's concurrent slots for a request that is not parsed yet, or refuses it
// with an [*Error]. The request keeps the slot, and is reserved with HasSlot, until leave is called, once.
func (l *Limiter) AcquireSlot(a Request) (leave func(), err error) {
	if a.Limit.Concurrent <= 0 {
		return func() {}, nil
	}
	replicas, now := l.replicas(), l.now()
	l.mu.Lock()
	t := l.tenantOf(a, replicas, now)
	taken, refused := t.acquireSlots(a, replicas, now)
	if refused != nil {
		l.attempt(t, a, now)
	}
	l.mu.Unlock()
	if refused != nil {
		l.metrics.limited.WithLabelValues(string(refused.Limit)).Inc()
		return nil, refused
	}
	return func() { l.leave(t, taken) }, nil
}

// Reserve admits a request or refuses it with an [*Error]. It waits at most for the budget, and not at all
// for a tenant without limits per minute. ctx only supplies values: if the client leaves, the charge remains.
func (l *Limiter) Reserve(ctx context.Context, a Request) (*Reservation, error) {
	a.Tokens = max(a.Tokens, 0)
	replicas, now := l.replicas(), l.now()
	if !a.Limit.counted() && a.Limit.Concurrent <= 0 {
		l.mu.Lock()
		l.attempt(l.tenantOf(a, replicas, now), a, now)
		l.mu.Unlock()
		return &l.unlimited, nil
	}
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
	l.leave(g.tenant, g.slots)
	l.metrics.limited.WithLabelValues(string(got.refused)).Inc()
	return nil, l.refusal(g, got, laws)
}

// AdviseRetry reports whether a client may be told to retry after a 5xx, and after which wait, which is never shorter than the given
// one. Those of a tenant that obey arrive no faster than a tenth of its recent first tries, or one in 14 s if there were fewer than
// ten. Each replica counts for itself. Callers that were refused before Reserve, "" among them, share one budget; retry says that
// such a caller was refused before.
func (l *Limiter) AdviseRetry(tenant string, retry bool, wait time.Duration) (time.Duration, bool) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	budget := &l.unknownRetries
	if t := l.tenants.find(tenant); t != nil {
		budget = &t.retries
	} else if !retry {
		budget.first(now)
	}
	return budget.advise(wait, now)
}

// refusal computes the time until this client may come again.
func (l *Limiter) refusal(g *Reservation, got answer, w rates) *Error {
	a := g.request
	e := &Error{Tenant: a.Tenant, Limit: got.refused, Max: a.Limit.RPM, Requested: 1, Wait: w.requests.wait(got.requests), Status: g.Status}
	each := 1 / float64(a.Limit.RPM) // minutes from one place to the next
	if got.refused == Tokens {
		e.Max, e.Requested, e.Wait = a.Limit.TPM, a.Tokens, w.tokens.wait(got.tokens)
		each = float64(a.Tokens) / float64(a.Limit.TPM)
	}
	replicas, now := l.replicas(), l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	g.tenant.promise(e, minutes(each*float64(replicas)), now) // every replica gives places
	return e
}

// begin does everything that needs no Redis: it counts the attempt and takes slots.
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
	var err *Error
	g.slots, err = t.acquireSlots(a, replicas, now)
	return err
}

// tenantOf returns the tenant of a request; the caller holds the lock.
func (l *Limiter) tenantOf(a Request, replicas int, now time.Time) *tenant {
	var start rates // without Redis, a new tenant starts with empty buckets
	if l.redis != nil {
		start = a.Limit.local(replicas)
	}
	return l.tenants.of(a.Tenant, start, now)
}

// attempt counts a request once; the caller holds the lock.
func (l *Limiter) attempt(t *tenant, a Request, now time.Time) {
	if a.Retry {
		l.metrics.retry.Inc()
		return
	}
	l.metrics.first.Inc()
	t.retries.first(now)
}

// count uses Redis, or this replica's own buckets.
func (l *Limiter) count(ctx context.Context, g *Reservation, replicas int) (answer, rates) {
	a := g.request
	there, here := a.Limit.shared(), l.own(a.Limit, replicas)
	t := g.tenant
	var got answer
	var result string
	var owes unsynced
	if l.redis != nil {
		if !l.asker.Away() { // otherwise Redis is not told
			l.mu.Lock()
			owes = t.takeUnsynced(there, here, replicas, l.now())
			l.mu.Unlock()
		}
		got, result = l.lookup(ctx, keyLimit+a.Tenant, there, charge{amounts: a.amounts(), how: howAsk, unsynced: owes})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if result == lookup.ResultShared {
		g.shared, g.high = true, a.High && !got.demoted
		t.applyRedis(got, there, here, replicas, l.now())
		return got, there
	}
	t.wasAway = t.wasAway || result == lookup.ResultSkipped
	got = t.decide(a, here, l.now())
	t.hasUnsynced = t.hasUnsynced || owes != unsynced{} || l.redis != nil && got.refused == ""
	return got, here
}

// own are the rates of this replica's buckets: its share, or the whole limit if no Redis is configured.
func (l *Limiter) own(limit Limit, replicas int) rates {
	if l.redis == nil {
		return limit.shared()
	}
	return limit.local(replicas)
}

// leave returns slots.
func (l *Limiter) leave(t *tenant, slots int) {
	if slots > 0 {
		l.mu.Lock()
		t.slotsUsed -= slots
		l.mu.Unlock()
	}
}

// Settle ends a request with its real use of tokens, prompt and answer; less than 0 means unknown: then the
// estimate remains. It refunds at most the charge, and never waits: Redis is told in the background. Further
// calls do nothing.
func (g *Reservation) Settle(used int) {
	var more amounts
	if used >= 0 && g.request.Limit.TPM > 0 {
		more.tokens = used - g.request.Tokens
	}
	g.close(more)
}

// Cancel ends a request that does not count for the tenant, instead of [Reservation.Settle]: its charge is
// refunded.
func (g *Reservation) Cancel() { g.close(g.request.amounts().negative()) }

// close ends a request whose use differs from its charge by more.
func (g *Reservation) close(more amounts) {
	l := g.limiter
	if l == nil || g.settled.Swap(true) {
		return
	}
	l.leave(g.tenant, g.slots)
	if g.shared {
		if !g.high {
			more.high = 0
		}
		if more != (amounts{}) {
			l.correct(g.request.Tenant, correction{limit: g.request.Limit, amounts: more})
		}
		return
	}
	if g.Demoted {
		more.high = 0
	}
	if more == (amounts{}) || !g.request.Limit.counted() {
		return
	}
	w := l.own(g.request.Limit, l.replicas())
	l.mu.Lock()
	defer l.mu.Unlock()
	g.tenant.add(more, w, l.now())
}
