package budgets

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

const (
	defaultTime = 15 * time.Millisecond
	// maxWindows bounds the memory: 10,000 tenants with three periods.
	maxWindows = 30_000
	// reservedWait is when a request may try again that only reservations of others are in the way of: about the time of an
	// answer.
	reservedWait = 2 * time.Second
)

// Options configure a [Ledger].
type Options struct {
	// Redis is where replicas count together; nil: this replica alone has the whole budgets. Its timeouts bound a
	// command, so they should be short (100 ms).
	Redis    redis.UniversalClient
	Replicas func() int           // last known number; nil and less than 1 are 1
	Budget   func() time.Duration // longest wait for Redis, live; nil and 0 are 15 ms

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// Ledger counts what tenants spend. Its methods are safe for concurrent use.
type Ledger struct {
	replicas func() int
	budget   func() time.Duration
	log      zerolog.Logger
	metrics  *metrics
	now      func() time.Time
	process  string // names this process in Redis

	redis   redis.UniversalClient
	scripts *script.Runner
	asker   *lookup.Client

	mu       sync.Mutex
	windows  map[windowID]*window
	unsent   map[*window]struct{} // whose state Redis may not know
	made     int64                // windows ever: each has a field of its own
	beat     int64                // highest that Redis has told
	lossSeen int64                // the last loss of data after which all windows were sent again

	beatAt, refreshedAt time.Time // of the last ones; used by Run's goroutine
}

// New returns a ledger. Without [Ledger.Run] it counts, too, but does not settle in Redis, and does not return to a
// Redis that was unavailable.
func New(o Options) *Ledger {
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Ledger{
		redis: o.Redis, scripts: script.NewRunner(o.Redis, budgetScript), log: o.Logger, metrics: newMetrics(o.Registerer), now: o.Now,
		replicas: func() int { return 1 },
		budget:   func() time.Duration { return defaultTime },
		process:  rand.Text()[:13], // 65 bits
		windows:  map[windowID]*window{}, unsent: map[*window]struct{}{},
	}
	if o.Replicas != nil && o.Redis != nil {
		l.replicas = func() int { return max(1, o.Replicas()) }
	}
	if o.Budget != nil {
		l.budget = func() time.Duration {
			if d := o.Budget(); d > 0 {
				return d
			}
			return defaultTime
		}
	}
	l.asker = l.newAsker()
	return l
}

// Request is a request that asks for admission.
type Request struct {
	Tenant  string // checked by the caller: it becomes part of keys
	Budgets []identity.Budget
	Tokens  int     // expected, of prompt and answer
	USD     float64 // expected; 0: unknown

	Fallback bool // the budget is a fallback's, not a tenant's: a refusal is counted elsewhere
}

// Reservation is an admitted request. Settle or Cancel must be called when it ends. A nil Reservation is that of a
// request without budgets.
type Reservation struct {
	ledger  *Ledger
	windows [3]*window
	ask     amounts
	ended   atomic.Bool
}

// Reserve admits a request or refuses it with an [*Error]. It waits at most for the budget of time, or 100 ms longer if
// a budget has DenyOnLoss. ctx only supplies values: if the client leaves, the reservation remains.
func (l *Ledger) Reserve(ctx context.Context, a Request) (*Reservation, error) {
	if len(a.Budgets) == 0 {
		return nil, nil
	}
	now := l.now()
	g := &Reservation{ledger: l, ask: amounts{int64(max(a.Tokens, 0)), nanos(a.USD)}}
	c, ok := l.begin(g, a, now)
	if !ok {
		return nil, l.refuse(a, &Error{Tenant: a.Tenant, Budget: a.Budgets[0], Uncounted: true})
	}
	deny := -1
	for i, b := range a.Budgets {
		if b.DenyOnLoss {
			deny = i
			break
		}
	}
	var got answer
	result := lookup.ResultShared
	if l.redis != nil {
		got, result = l.lookup(ctx, c, deny >= 0)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range c.windows {
		w.pending--
	}
	err := l.decide(g, a, got, result, deny)
	if err == nil {
		if result != lookup.ResultShared {
			l.send(g)
		}
		return g, nil
	}
	_, end := err.Budget.Per.Window(now)
	err.Tenant, err.Wait = a.Tenant, end.Sub(now)
	if err.Reserved {
		err.Wait = min(err.Wait, reservedWait)
	}
	g.end(amounts{})
	return nil, l.refuse(a, err)
}

// refuse counts a refusal.
func (l *Ledger) refuse(a Request, e *Error) *Error {
	if a.Fallback {
		return e
	}
	reason := refusedUSD
	switch {
	case e.Uncounted:
		reason = refusedUncounted
	case e.Budget.Tokens > 0:
		reason = refusedTokens
	}
	l.metrics.refused.WithLabelValues(reason).Inc()
	return e
}

// begin reserves in this process, and makes the call that tells Redis. ok is false if no window can be counted.
func (l *Ledger) begin(g *Reservation, a Request, now time.Time) (c *call, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	periods, n := periodsOf(a.Budgets)
	for i, per := range periods[:n] {
		if g.windows[i] = l.window(a.Tenant, per, now); g.windows[i] == nil {
			return nil, false
		}
	}
	c = l.newCall(true)
	for _, w := range g.windows[:n] {
		w.own.reserved = w.own.reserved.plus(g.ask)
		w.pending++
		var most amounts
		for _, b := range a.Budgets {
			if b.Per == w.id.per {
				most.tokens, most.nanos = max(most.tokens, b.Tokens), max(most.nanos, b.NanoUSD)
			}
		}
		c.add(w, g.ask, most, now)
	}
	return c, true
}

// window returns or makes a tenant's window at a time; nil if there are too many. The caller holds the lock.
func (l *Ledger) window(tenant string, per identity.Period, now time.Time) *window {
	begin, end := per.Window(now)
	id := windowID{tenant, per, begin.Unix()}
	if w := l.windows[id]; w != nil {
		return w
	}
	if len(l.windows) >= maxWindows && !l.forgetIdle() {
		return nil
	}
	l.made++
	w := &window{id: id, key: keyOf(tenant, per, begin), end: end, field: l.process + "." + strconv.FormatInt(l.made, 36)}
	l.windows[id] = w
	return w
}

// forgetIdle forgets any window that Redis knows and in which no request is in progress: the order of a map is random.
// The caller holds the lock.
func (l *Ledger) forgetIdle() bool {
	for id, w := range l.windows {
		if l.idle(w) {
			delete(l.windows, id)
			return true
		}
	}
	return false
}

// idle reports whether a window can be forgotten: Redis knows it, and no request may change it. The caller holds the lock.
func (l *Ledger) idle(w *window) bool {
	_, unsent := l.unsent[w]
	return l.redis != nil && !unsent && w.pending == 0 && w.own.reserved == amounts{}
}

// decide decides about a request by Redis' answer, or else by what this process knows. The caller holds the lock.
func (l *Ledger) decide(g *Reservation, a Request, got answer, result string, deny int) *Error {
	byRedis := result == lookup.ResultShared && l.redis != nil
	if !byRedis && l.redis != nil && deny >= 0 {
		return &Error{Budget: a.Budgets[deny], Uncounted: true}
	}
	replicas := l.replicas()
	if byRedis {
		replicas = 1
	}
	for _, b := range a.Budgets {
		i, w := g.of(b)
		refused := got.refused == 2*i+1 && b.Tokens > 0 || got.refused == 2*i+2 && b.NanoUSD > 0
		if !byRedis {
			refused = !w.admits(b, g.ask, replicas)
		}
		if refused {
			return &Error{Budget: b, Need: g.ask.of(b), Left: w.left(b, g.ask), Reserved: w.onlyReserved(b, g.ask, replicas)}
		}
	}
	if byRedis && got.refused != 0 { // for a budget that the request does not have: Redis is not to be believed
		return &Error{Budget: a.Budgets[0], Uncounted: true}
	}
	return nil
}

// of returns the window of a budget and its index.
func (g *Reservation) of(b identity.Budget) (int, *window) {
	for i, w := range g.windows {
		if w != nil && w.id.per == b.Per {
			return i, w
		}
	}
	return 0, g.windows[0]
}

// Settle ends a request with what it has really used; tokens less than 0 are unknown: then the estimate is charged. It
// never waits: Redis is told in the background. Further calls do nothing.
func (g *Reservation) Settle(tokens int, usd float64) {
	if g == nil || g.ended.Swap(true) {
		return
	}
	used := amounts{int64(tokens), nanos(usd)}
	if tokens < 0 {
		used.tokens = g.ask.tokens
	}
	g.ledger.mu.Lock()
	defer g.ledger.mu.Unlock()
	g.end(used)
}

// Cancel ends a request that does not count for the tenant.
func (g *Reservation) Cancel() { g.Settle(0, 0) }

// end replaces the reservation by what was used. The caller holds the lock.
func (g *Reservation) end(used amounts) {
	for _, w := range g.windows {
		if w != nil {
			w.own = part{w.own.settled.plus(used), w.own.reserved.minus(g.ask)}
		}
	}
	g.ledger.send(g)
}

// send has Redis told of a reservation's windows. The caller holds the lock.
func (l *Ledger) send(g *Reservation) {
	if l.redis == nil {
		return
	}
	for _, w := range g.windows {
		if w != nil {
			l.unsent[w] = struct{}{}
		}
	}
}
