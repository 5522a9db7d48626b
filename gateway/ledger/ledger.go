package ledger

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redis/calls"
)

const defaultWait = 15 * time.Millisecond

// Options configure a [Ledger].
type Options struct {
	// Redis is where replicas count together; nil: this replica alone has the whole limits and budgets. Requests wait for
	// it, so its timeouts should be short (100 ms), and it should not retry: a repeated charge to a limit counts twice.
	Redis      redis.UniversalClient
	Background redis.UniversalClient // the same server, with timeouts for reading and writing usage; nil is Redis
	Embedded   bool                  // Redis is inside this process and ends with it
	Replicas   func() int            // last known number; nil and less than 1 are 1
	Budget     func() time.Duration  // longest wait for Redis, live; nil is 15 ms

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// Ledger enforces tenants' limits and budgets, and counts what they use. Its methods are safe for concurrent use.
type Ledger struct {
	o       Options
	log     zerolog.Logger
	metrics *metrics
	now     func() time.Time
	process string // names this process in Redis

	redis   redis.UniversalClient
	scripts *calls.Runner // of reservations
	writer  *calls.Runner // of usage
	asker   *calls.Client
	book    book

	mu             sync.Mutex
	tenants        map[string]*tenant
	made           int64                // tenants ever: each has a field of its own
	unsent         map[*tenant]struct{} // whose state Redis may not know
	doubt          time.Time            // until then nobody uses Redis' sums
	unknownRetries retryBudget          // of callers that are refused before Reserve

	refreshed time.Time // of Run's goroutine
	unlimited Reservation
}

// New returns a ledger. Without [Ledger.Run] it counts, too, but does not settle in Redis, and does not return to a
// Redis that was unavailable.
func New(o Options) *Ledger {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Budget == nil {
		o.Budget = func() time.Duration { return defaultWait }
	}
	if o.Replicas == nil {
		o.Replicas = func() int { return 1 }
	}
	if o.Background == nil {
		o.Background = o.Redis
	}
	l := &Ledger{
		o: o, log: o.Logger, now: o.Now, redis: o.Redis, process: rand.Text()[:13], // 65 bits
		scripts: calls.NewRunner(o.Redis, reserveScript), writer: calls.NewRunner(o.Background, writeScript), tenants: map[string]*tenant{}, unsent: map[*tenant]struct{}{},
	}
	l.book = book{began: o.Now(), wake: make(chan struct{}, 1), rows: map[rowKey]*row{}, pages: map[page]int{}}
	l.metrics = newMetrics(o.Registerer, l.pending)
	l.asker = l.newAsker()
	return l
}

// replicas is the number of those that share a limit.
func (l *Ledger) replicas() int { return max(1, l.o.Replicas()) }

// Request is a request that asks for admission.
type Request struct {
	Tenant  string // checked by the caller: it becomes part of a key
	Limit   Limit
	Budgets []identity.Budget
	Tokens  int     // expected, of prompts and answers
	USD     float64 // expected; 0: unknown
	Answers int     // that it asks for: each is one of the tenant's concurrent requests; 0 is 1
	High    bool    // it has priority high
	Retry   bool    // its client marked it as a retry
	HasSlot bool    // it has a slot already ([Ledger.AcquireSlot])
	// Fallback means that only the dollars of an attempt at a fallback are asked for: of the fallback itself, or of a tenant
	// whose request has a reservation. A refusal is counted elsewhere.
	Fallback bool
}

// cost is what the request counts for, before it has ended.
func (r *Request) cost() cost {
	n := cost{ofRequests: 1, ofTokens: int64(r.Tokens)}
	if r.High && r.Limit.HighShare > 0 {
		n[ofHigh] = 1
	}
	if len(r.Budgets) > 0 {
		n[ofNanos] = nanos(r.USD)
	}
	return n
}

// denies returns the budget that refuses without Redis, nil for none.
func (r *Request) denies() *identity.Budget {
	for i := range r.Budgets {
		if r.Budgets[i].DenyOnLoss {
			return &r.Budgets[i]
		}
	}
	return nil
}

// Reservation is an admitted request. Settle must be called when it ends. A nil one, and one of a request without limits and
// budgets, has nothing to settle.
type Reservation struct {
	Status
	Demoted bool // its tenant has used up its share of priority high: treat it as normal

	ledger  *Ledger
	tenant  *tenant
	request Request
	cost    cost   // that is charged and reserved
	slots   int    // that it has taken, besides the one of [Ledger.AcquireSlot]
	shared  bool   // the cost is in Redis' levels, otherwise in this replica's
	in      begins // of the windows in which it has reserved
	ended   atomic.Bool
}

// AcquireSlot takes one of the tenant's concurrent slots for a request that is not parsed yet, or refuses it
// with a [*LimitError]. The request keeps the slot, and is reserved with HasSlot, until leave is called, once.
func (l *Ledger) AcquireSlot(a Request) (leave func(), err error) {
	if a.Limit.Concurrent <= 0 {
		return func() {}, nil
	}
	replicas, now := l.replicas(), l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	t, _ := l.tenantOf(&a, replicas, now)
	taken, refused := t.acquireSlots(&a, replicas, now)
	if refused != nil {
		l.attempt(t, &a, now)
		l.metrics.refused(refused)
		return nil, refused
	}
	return func() {
		l.mu.Lock()
		t.slots -= taken
		l.mu.Unlock()
	}, nil
}

// Reserve admits a request or refuses it with a [*LimitError] or a [*BudgetError]. It waits at most for the budget of time,
// or 100 ms longer if one of its budgets has DenyOnLoss, and not at all where no replica but this one needs to know. ctx only
// supplies values: if the client leaves, the reservation remains.
func (l *Ledger) Reserve(ctx context.Context, a Request) (*Reservation, error) {
	a.Tokens = max(a.Tokens, 0)
	g, c, err := l.begin(&a)
	if err == nil && c != nil {
		got, result := answer{}, calls.ResultShared // without Redis
		if l.redis != nil {
			got, result = l.lookup(ctx, c)
		}
		err = l.decide(g, got, result)
	}
	if err != nil {
		if !a.Fallback {
			l.metrics.refused(err)
		}
		return nil, err
	}
	if g.Demoted {
		l.metrics.demoted.Inc()
	}
	return g, nil
}

// begin does everything that needs no Redis: it counts the attempt, takes slots, and reserves in this process. The call is nil
// where Redis need not be asked.
func (l *Ledger) begin(a *Request) (*Reservation, *call, error) {
	replicas, now := l.replicas(), l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	t, room := l.tenantOf(a, replicas, now)
	if !a.Fallback {
		l.attempt(t, a, now)
	}
	if !a.Limit.perMinute() && a.Limit.Concurrent <= 0 && len(a.Budgets) == 0 {
		return &l.unlimited, nil, nil
	}
	if a.Limit.TPM > 0 && a.Tokens > a.Limit.TPM {
		return nil, nil, &LimitError{Tenant: a.Tenant, Limit: Tokens, Max: a.Limit.TPM, Requested: a.Tokens, NeverFits: true}
	}
	g := &Reservation{ledger: l, tenant: t, request: *a, cost: a.cost()}
	if !room && len(a.Budgets) > 0 {
		return nil, nil, &BudgetError{Tenant: a.Tenant, Budget: a.Budgets[0], Uncounted: true}
	}
	var refused *LimitError
	if g.slots, refused = t.acquireSlots(a, replicas, now); refused != nil {
		return nil, nil, refused
	}
	if !a.Limit.perMinute() && len(a.Budgets) == 0 {
		return g, nil, nil
	}
	g.in = t.windows.open(a.Budgets, now)
	t.windows.add(g.in, cost{}, g.cost)
	t.pending++
	return g, l.newCall(t, g, now), nil
}

// attempt counts a request once; the caller holds the lock.
func (l *Ledger) attempt(t *tenant, a *Request, now time.Time) {
	if a.Retry {
		l.metrics.retry.Inc()
		return
	}
	l.metrics.first.Inc()
	t.retries.first(now)
}

// own are the rates of this replica's levels: its share, or the whole limit if it has neither Redis nor others beside it.
func (l *Ledger) own(limit Limit, replicas int) rates {
	if l.redis == nil && replicas == 1 {
		return limit.shared()
	}
	return limit.local(replicas)
}

// decide decides about a request by Redis' answer, or else by what this process knows.
func (l *Ledger) decide(g *Reservation, got answer, result string) error {
	a, t, replicas, now := &g.request, g.tenant, l.replicas(), l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.pending--
	w, here := a.Limit.shared(), l.own(a.Limit, replicas)
	counts := l.redis != nil && (result == calls.ResultShared || result == resultRefilling) // Redis has counted the levels
	if counts {
		t.local.follow(got.levels, w, here, replicas, now)
	} else {
		w, got = here, t.local.admit(g.cost, here, now)
	}
	g.shared = counts
	if g.Demoted = got.demoted; g.Demoted {
		g.cost[ofHigh] = 0
	}
	g.Status = a.Limit.status(w, got.levels)
	var err error
	switch {
	case got.refused == refusedRequests || got.refused == refusedTokens:
		err = l.limited(g, got, w)
	case result == calls.ResultShared && l.redis != nil:
		err = g.overspent(got.refused, 0, now)
	case l.redis != nil && a.denies() != nil:
		err = &BudgetError{Tenant: a.Tenant, Budget: *a.denies(), Uncounted: true}
	default:
		err = g.overspent(got.refused, replicas, now)
	}
	switch {
	case err != nil && got.refused != 0: // it is not charged
		g.end(cost{}, cost{})
	case err != nil:
		g.end(g.cost.times(-1), cost{})
	case !counts:
		l.send(t)
	}
	return err
}

// limited is a refusal by a limit, with the time until this client may come again.
func (l *Ledger) limited(g *Reservation, got answer, w rates) error {
	a := &g.request
	e := &LimitError{Tenant: a.Tenant, Limit: Requests, Max: a.Limit.RPM, Requested: 1, Wait: w[ofRequests].wait(got.levels[ofRequests]), Status: g.Status}
	each := 1 / float64(a.Limit.RPM) // minutes from one place to the next
	if got.refused == refusedTokens {
		e.Limit, e.Max, e.Requested, e.Wait = Tokens, a.Limit.TPM, a.Tokens, w[ofTokens].wait(got.levels[ofTokens])
		each = float64(a.Tokens) / float64(a.Limit.TPM)
	}
	e.Wait, e.Retry = g.tenant.retries.place(e.Limit, e.Wait, minutes(each*float64(l.replicas())), l.now()) // every replica gives places
	return e
}

// overspent is a refusal by a budget: by the verdict of Redis, or by what this process knows, as one of n replicas that count for
// themselves (0: Redis has counted). The caller holds the lock.
func (r *Reservation) overspent(refused, n int, now time.Time) error {
	for _, b := range r.request.Budgets {
		i := indexOf(b)
		w := &r.tenant.windows[i]
		no := w.overdrawn(b, r.cost) || n > 0 && !w.admits(b, r.cost, n)
		if no || refused == refusedWindow+2*i && b.Tokens > 0 || refused == refusedWindow+2*i+1 && b.NanoUSD > 0 {
			e := w.refusal(b, r.cost, max(n, 1), now)
			e.Tenant = r.request.Tenant
			return e
		}
	}
	if refused != 0 { // for a budget that the request does not have: Redis is not to be believed
		return &BudgetError{Tenant: r.request.Tenant, Budget: r.request.Budgets[0], Uncounted: true}
	}
	return nil
}

// Settle ends a request with its real use, prompts and answers; tokens less than 0 are unknown: then the estimate remains
// charged. It refunds at most the charge, and never waits: Redis is told in the background. Further calls do nothing.
func (r *Reservation) Settle(tokens int, usd float64) {
	if r == nil || r.ledger == nil || r.ended.Swap(true) {
		return
	}
	used, more := cost{ofTokens: int64(tokens), ofNanos: nanos(usd)}, cost{}
	if tokens < 0 {
		used[ofTokens] = r.cost[ofTokens]
	} else if r.request.Limit.TPM > 0 {
		more[ofTokens] = int64(tokens - r.request.Tokens)
	}
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	r.end(more, used)
}

// end changes what is charged to the limits by more, and replaces the reservation by what was used. The caller holds the lock.
func (r *Reservation) end(more, used cost) {
	l, t := r.ledger, r.tenant
	t.slots -= r.slots
	if more != (cost{}) && r.request.Limit.perMinute() {
		if r.shared {
			t.corrections = t.corrections.plus(more)
			l.send(t)
		} else {
			t.local.add(more, l.own(r.request.Limit, l.replicas()), l.now())
		}
	}
	if t.windows.add(r.in, used, r.cost.times(-1)) { // a window that is over limits nobody
		l.send(t)
	}
}
