package ledger

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redis/lookup"
	"github.com/foregate/foregate/internal/redis/script"
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
	Budget     func() time.Duration  // longest wait for Redis, live; nil and 0 are 15 ms

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
	scripts *script.Runner
	asker   *lookup.Client
	lost    atomic.Bool // Redis has lost data, and Run has not seen it

	mu             sync.Mutex
	tenants        tenants
	made           int64                // tenants ever: each has a field of its own
	unsent         map[*tenant]struct{} // whose state Redis may not know
	doubt          time.Time            // until then nobody uses Redis' sums
	unknownRetries retryBudget          // of callers that are refused before Reserve

	refreshed time.Time // of Run's goroutine
	unlimited Reservation
	usage     usage
}

// New returns a ledger. Without [Ledger.Run] it counts, too, but does not settle in Redis, and does not return to a
// Redis that was unavailable.
func New(o Options) *Ledger {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Background == nil {
		o.Background = o.Redis
	}
	l := &Ledger{
		o: o, log: o.Logger, now: o.Now, redis: o.Redis, process: rand.Text()[:13], // 65 bits
		scripts: script.NewRunner(o.Redis, reserveScript), unsent: map[*tenant]struct{}{},
	}
	l.usage.init(&l.o)
	l.metrics = newMetrics(o.Registerer, l.pending)
	l.asker = l.newAsker()
	return l
}

// replicas is the number of those that share a limit.
func (l *Ledger) replicas() int {
	if l.redis == nil || l.o.Replicas == nil {
		return 1
	}
	return max(1, l.o.Replicas())
}

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

// charge is what the request adds to its tenant's buckets.
func (a *Request) charge() charge {
	n := charge{requests: 1, tokens: a.Tokens}
	if a.High {
		n.high = 1
	}
	return n
}

// denies returns the budget that refuses without Redis, nil for none.
func (a *Request) denies() *identity.Budget {
	for i := range a.Budgets {
		if a.Budgets[i].DenyOnLoss {
			return &a.Budgets[i]
		}
	}
	return nil
}

// Where a request is charged to the limits.
const (
	nowhere = iota
	here    // in this replica's buckets
	shared  // in Redis
)

// Reservation is an admitted request. Settle must be called when it ends. A nil one, and one of a request without limits and
// budgets, has nothing to settle.
type Reservation struct {
	Status
	Demoted bool // its tenant has used up its share of priority high: treat it as normal

	ledger  *Ledger
	tenant  *tenant
	request Request
	ask     amounts
	slots   int // that it has taken, besides the one of [Ledger.AcquireSlot]
	charged int // where
	charge  charge
	begins  [len(periods)]int64 // of the windows in which it has reserved; 0: not in this one
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
		got, result := answer{}, lookup.ResultShared
		if l.redis != nil {
			got, result = l.lookup(ctx, c, a.denies() != nil)
		}
		err = l.decide(g, c, got, result)
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
// where nothing else is counted.
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
	g := &Reservation{ledger: l, tenant: t, request: *a, ask: amounts{int64(a.Tokens), nanos(a.USD)}, charge: a.charge()}
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
	for _, b := range a.Budgets {
		i := indexOf(b)
		w := &t.windows[i]
		w.open(b.Per, now)
		if g.begins[i] == 0 {
			g.begins[i], w.own.reserved = w.begin, w.own.reserved.plus(g.ask)
		}
	}
	t.pending++
	return g, l.newCall(t, g, replicas, now), nil
}

// tenantOf returns or makes the tenant of a request; room is false if there are too many. The caller holds the lock.
func (l *Ledger) tenantOf(a *Request, replicas int, now time.Time) (t *tenant, room bool) {
	room = true
	if t = l.tenants.find(a.Tenant); t == nil {
		l.made++
		t = &tenant{name: a.Tenant, field: l.process + "." + strconv.FormatInt(l.made, 36)}
		if l.redis != nil { // without Redis, a new tenant starts with empty buckets
			t.start(a.Limit.local(replicas), now)
		}
		room = l.tenants.insert(t, l.forgettable)
	}
	if !a.Fallback {
		t.limit = a.Limit
	}
	return t, room
}

// forgettable reports whether a tenant can be forgotten: no request may change it, and Redis knows its budgets. The caller
// holds the lock.
func (l *Ledger) forgettable(t *tenant) bool {
	_, unsent := l.unsent[t]
	budgeted, quiet := t.budgeted(l.now())
	return t.slots == 0 && t.pending == 0 && !unsent && quiet && (!budgeted || l.redis != nil)
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

// own are the rates of this replica's buckets: its share, or the whole limit if no Redis is configured.
func (l *Ledger) own(limit Limit, replicas int) rates {
	if l.redis == nil {
		return limit.shared()
	}
	return limit.local(replicas)
}

// decide decides about a request by Redis' answer, or else by what this process knows.
func (l *Ledger) decide(g *Reservation, c *call, got answer, result string) error {
	a, t, replicas, now := &g.request, g.tenant, l.replicas(), l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.pending--
	w, byRedis := l.own(a.Limit, replicas), l.redis != nil && (result == lookup.ResultShared || result == resultRefilling)
	if byRedis {
		t.follow(got, a.Limit.shared(), w, replicas, now)
		w, g.charged = a.Limit.shared(), shared
	} else {
		t.away = t.away || result == lookup.ResultSkipped
		got, g.charged = t.admit(g.charge, w, now), here
		t.alone = t.alone || c.unsynced != unsynced{} || l.redis != nil && got.refused == 0
	}
	if g.Demoted = got.demoted; g.Demoted {
		g.charge.high = 0
	}
	g.Status = a.Limit.status(w, got.requests, got.tokens)
	var err error
	switch {
	case got.refused == refusedRequests || got.refused == refusedTokens:
		err = l.limited(g, got, w, replicas, now)
	case result == lookup.ResultShared && l.redis != nil:
		err = g.overspent(got.refused, 0, now)
	case l.redis != nil && a.denies() != nil:
		err = &BudgetError{Tenant: a.Tenant, Budget: *a.denies(), Uncounted: true}
	default:
		err = g.overspent(got.refused, replicas, now)
	}
	switch {
	case err != nil:
		if got.refused != 0 {
			g.charged = nowhere
		}
		g.end(g.charge.negative(), amounts{})
	case result != lookup.ResultShared && len(a.Budgets) > 0:
		l.send(t)
	}
	return err
}

// limited is a refusal by a limit, with the time until this client may come again.
func (l *Ledger) limited(g *Reservation, got answer, w rates, replicas int, now time.Time) error {
	a := &g.request
	e := &LimitError{Tenant: a.Tenant, Limit: Requests, Max: a.Limit.RPM, Requested: 1, Wait: w.requests.wait(got.requests), Status: g.Status}
	each := 1 / float64(a.Limit.RPM) // minutes from one place to the next
	if got.refused == refusedTokens {
		e.Limit, e.Max, e.Requested, e.Wait = Tokens, a.Limit.TPM, a.Tokens, w.tokens.wait(got.tokens)
		each = float64(a.Tokens) / float64(a.Limit.TPM)
	}
	g.tenant.promise(e, minutes(each*float64(replicas)), now) // every replica gives places
	return e
}

// overspent is a refusal by a budget: by the verdict of Redis, or by what this process knows, as one of n replicas that count for
// themselves (0: Redis has counted). The caller holds the lock.
func (g *Reservation) overspent(refused, n int, now time.Time) error {
	for _, b := range g.request.Budgets {
		i := indexOf(b)
		w := &g.tenant.windows[i]
		no := w.overdrawn(b, g.ask) || n > 0 && !w.admits(b, g.ask, n)
		if no || refused == refusedWindow+2*i && b.Tokens > 0 || refused == refusedWindow+2*i+1 && b.NanoUSD > 0 {
			e := w.refusal(b, g.ask, max(n, 1), now)
			e.Tenant = g.request.Tenant
			return e
		}
	}
	if refused != 0 { // for a budget that the request does not have: Redis is not to be believed
		return &BudgetError{Tenant: g.request.Tenant, Budget: g.request.Budgets[0], Uncounted: true}
	}
	return nil
}

// Settle ends a request with its real use, prompts and answers; tokens less than 0 are unknown: then the estimate remains
// charged. It refunds at most the charge, and never waits: Redis is told in the background. Further calls do nothing.
func (g *Reservation) Settle(tokens int, usd float64) {
	if g == nil || g.ledger == nil || g.ended.Swap(true) {
		return
	}
	used, more := amounts{int64(tokens), nanos(usd)}, charge{}
	if tokens < 0 {
		used.tokens = g.ask.tokens
	} else if g.request.Limit.TPM > 0 {
		more.tokens = tokens - g.request.Tokens
	}
	g.ledger.mu.Lock()
	defer g.ledger.mu.Unlock()
	g.end(more, used)
}

// end changes what is charged to the limits by more, and replaces the reservation by what was used. The caller holds the lock.
func (g *Reservation) end(more charge, used amounts) {
	l, t := g.ledger, g.tenant
	t.slots -= g.slots
	switch {
	case more == charge{} || !g.request.Limit.perMinute():
	case g.charged == shared:
		t.corrections = t.corrections.plus(more)
		l.send(t)
	case g.charged == here:
		t.add(more, l.own(g.request.Limit, l.replicas()), l.now())
	}
	for i, begin := range g.begins {
		if w := &t.windows[i]; begin != 0 && w.begin == begin { // a window that is over limits nobody
			w.own = part{w.own.settled.plus(used), w.own.reserved.minus(g.ask)}
			l.send(t)
		}
	}
}

// send has Redis told of a tenant. The caller holds the lock.
func (l *Ledger) send(t *tenant) {
	if l.redis != nil {
		l.unsent[t] = struct{}{}
	}
}

// AdviseRetry reports whether a client may be told to retry after a 5xx, and after which wait, which is never shorter than the given
// one. Those of a tenant that obey arrive no faster than a tenth of its recent first tries, or one in 14 s if there were fewer than
// ten. Each replica counts for itself. Callers that were refused before Reserve, "" among them, share one budget; retry says that
// such a caller was refused before.
func (l *Ledger) AdviseRetry(tenant string, retry bool, wait time.Duration) (time.Duration, bool) {
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
