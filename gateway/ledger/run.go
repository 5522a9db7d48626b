package ledger

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redis/calls"
)

const (
	flushInterval = 250 * time.Millisecond // of telling Redis; far fewer round trips than requests
	flushBatch    = 256                    // calls in one round trip

	// refreshInterval is how often a tenant without changes is sent: so reservations stay known for the 30 s of the script, and
	// so does what the others have spent. Of those without a request in progress, it is maxRefreshed.
	refreshInterval = 5 * time.Second
	maxRefreshed    = 2000
	// refillTime is for how long budgets are not decided by Redis' sums after it has lost data: every process has sent its own
	// again by then.
	refillTime = 2500 * time.Millisecond
)

// Lost says that Redis has lost data. It returns at once: within a quarter of a second [Ledger.Run] and [Ledger.RunUsage] send
// again what this process knows.
func (l *Ledger) Lost() {
	l.log.Warn().Msg("Redis has lost tenants' limits and budgets, or is new: replicas fill it again, and count budgets for themselves until then")
	l.book.again()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubt = l.now().Add(refillTime)
	for _, t := range l.tenants {
		l.send(t)
	}
}

// send has Redis told of a tenant. The caller holds the lock.
func (l *Ledger) send(t *tenant) {
	if l.redis != nil {
		l.unsent[t] = struct{}{}
		l.asker.Wake()
	}
}

// Run tells Redis what requests have used, at most every 250 ms, and probes an unavailable Redis, until ctx ends. Then it tells
// the rest and waits for calls in progress, at most a second, and returns nil.
func (l *Ledger) Run(ctx context.Context) error {
	l.refreshed = l.now()
	if l.redis == nil {
		<-ctx.Done()
		return nil
	}
	loading, cancel := context.WithTimeout(context.WithoutCancel(ctx), calls.BackgroundTime)
	_ = l.scripts.Load(loading) // a failure shows at the first request
	cancel()
	l.asker.Run(ctx, calls.Background{
		Pause: flushInterval, Most: refreshInterval,
		Flush: func(flush context.Context) {
			l.refresh()
			if ctx.Err() != nil || !l.asker.Away() { // at the end also if Redis was unavailable of late
				l.flush(flush)
			}
		},
		Probe: func(ctx context.Context) error {
			c := &call{tenant: &tenant{name: strings.TrimPrefix(keyProbe, keyTenant), field: l.process}}
			c.encode(callTell, Limit{RPM: 1}.shared(), l.now())
			_, err := l.run(ctx, c)
			return err
		},
		Back: func(ctx context.Context) {
			l.flush(ctx) // what this replica has counted alone
			l.log.Info().Msg("tenants' limits and budgets are counted over all replicas again")
		},
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.unsent); n > 0 {
		l.log.Warn().Int("tenants", n).Msg("the last state of tenants' limits and budgets could not be sent to Redis")
	}
	return nil
}

// refresh has tenants with budgets sent every five seconds: some that are quiet, each time others, because the order of a map is
// random, and all with reservations.
func (l *Ledger) refresh() {
	now := l.now()
	if now.Sub(l.refreshed) < refreshInterval {
		return
	}
	l.refreshed = now
	l.mu.Lock()
	defer l.mu.Unlock()
	quiet := 0
	for _, t := range l.tenants {
		budgeted, idle := t.budgeted(now)
		if idle {
			quiet++
		}
		if budgeted && (!idle || quiet <= maxRefreshed) {
			l.send(t)
		}
	}
}

// flush tells Redis what it may not know.
func (l *Ledger) flush(ctx context.Context) {
	l.mu.Lock()
	list := slices.Collect(maps.Keys(l.unsent))
	l.mu.Unlock()
	for part := range slices.Chunk(list, flushBatch) {
		if !l.tell(ctx, part) {
			return
		}
	}
}

// tell makes one round trip; two more if Redis does not know the script. It reports whether Redis has answered. Windows that
// failed are told again; corrections of levels are not, because they may have been counted: what is charged too much drains
// away.
func (l *Ledger) tell(ctx context.Context, list []*tenant) bool {
	told, now := make([]*call, len(list)), l.now()
	l.mu.Lock()
	for i, t := range list {
		told[i] = l.newCall(t, nil, now)
		delete(l.unsent, t) // from here on, every change is told anew
	}
	l.mu.Unlock()
	answered := l.together(ctx, told)
	for _, c := range told {
		if c.err == nil {
			l.hear(c, c.answer)
			continue
		}
		if c.charge != (cost{}) {
			l.metrics.dropped.Inc()
		}
		l.mu.Lock()
		if c.version > 0 {
			l.send(c.tenant)
		}
		l.mu.Unlock()
	}
	return answered
}

// BudgetQuery asks for the state of a tenant's budgets.
type BudgetQuery struct {
	Tenant  string
	Budgets []identity.Budget
}

// BudgetState is how much of a budget is spent in the present window, over all replicas, in the unit of the budget.
type BudgetState struct {
	Budget         identity.Budget
	Used, Reserved int64 // by requests that have ended, and by those in progress
	Ends           time.Time
	Shared         bool // counted in Redis now; otherwise as this replica knew it last
}

// States returns the states of the budgets of each query. It asks Redis, 256 tenants in a round trip, until ctx ends or a
// round trip takes longer than 250 ms, and changes nothing there.
func (l *Ledger) States(ctx context.Context, list []BudgetQuery) [][]BudgetState {
	now, states, asks := l.now(), make([][]BudgetState, 0, len(list)), l.redis != nil && !l.asker.Away()
	for part := range slices.Chunk(list, flushBatch) {
		reads := make([]*call, len(part))
		l.mu.Lock()
		for i, q := range part {
			reads[i] = l.newRead(q, now)
		}
		doubt := l.doubt
		l.mu.Unlock()
		asks = asks && ctx.Err() == nil && l.together(ctx, reads)
		for i, c := range reads {
			shared := l.redis == nil || asks && c.err == nil && !now.Before(doubt)
			for j := range c.tenant.windows {
				if shared {
					c.tenant.windows[j].others = c.answer.others[j]
				}
			}
			states = append(states, c.tenant.states(part[i].Budgets, shared))
		}
	}
	return states
}

// newRead makes a call that reads about a copy of a tenant. The caller holds the lock.
func (l *Ledger) newRead(q BudgetQuery, now time.Time) *call {
	t := &tenant{name: q.Tenant, field: l.process}
	if known := l.tenants[q.Tenant]; known != nil {
		t.field, t.windows = known.field, known.windows
	}
	t.windows.open(q.Budgets, now)
	c := &call{tenant: t}
	c.encode(callRead, rates{}, now)
	return c
}

// states adds up what this process and the others have spent of each budget.
func (t *tenant) states(list []identity.Budget, shared bool) []BudgetState {
	states := make([]BudgetState, 0, len(list))
	for _, b := range list {
		w := &t.windows[indexOf(b)]
		settled, reserved := w.own.settled.plus(w.others.settled), w.own.reserved.plus(w.others.reserved)
		states = append(states, BudgetState{Budget: b, Used: settled.of(b), Reserved: reserved.of(b), Ends: time.Unix(w.end, 0), Shared: shared})
	}
	return states
}
