package ledger

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redis/lookup"
)

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
	now, states := l.now(), make([][]BudgetState, 0, len(list))
	ask := l.redis != nil && !l.asker.Away()
	for part := range slices.Chunk(list, flushBatch) {
		calls := make([]*call, 0, len(part))
		for _, q := range part {
			calls = append(calls, l.look(q, now))
		}
		read := make([]bool, len(part))
		if ask = ask && ctx.Err() == nil; ask {
			ask = l.read(ctx, calls, read)
		}
		for i, q := range part {
			states = append(states, calls[i].states(q.Budgets, read[i] || l.redis == nil))
		}
	}
	return states
}

// look makes a call that reads a copy of a tenant's windows.
func (l *Ledger) look(q BudgetQuery, now time.Time) *call {
	copied := tenant{name: q.Tenant, field: l.process}
	l.mu.Lock()
	if e := l.tenants.byName[q.Tenant]; e != nil {
		known := e.Value.(*tenant)
		copied.field, copied.windows, copied.doubt = known.field, known.windows, known.doubt
	}
	if l.doubt.After(copied.doubt) {
		copied.doubt = l.doubt
	}
	l.mu.Unlock()
	for _, b := range q.Budgets {
		copied.windows[indexOf(b)].open(b.Per, now)
	}
	c := &call{tenant: &copied}
	c.fill(callRead, rates{}, amounts{}, 0)
	c.window([len(periods)]amounts{})
	return c
}

// read makes one round trip, and reports whether Redis has answered, and which windows are as it said.
func (l *Ledger) read(ctx context.Context, calls []*call, ok []bool) bool {
	pipe := l.scripts.Pipeline()
	for _, c := range calls {
		c.send(ctx, pipe)
	}
	cmds := pipe.Cmds()
	if l.scripts.Exec(ctx, pipe, lookup.BackgroundTime) != nil {
		return false
	}
	for i, c := range calls {
		a, err := parse(cmds[i].(*redis.Cmd))
		if ok[i] = err == nil && !l.now().Before(c.tenant.doubt); ok[i] {
			for j := range c.tenant.windows {
				c.tenant.windows[j].others = a.others[j]
			}
		}
	}
	return true
}

// states adds up what this process and the others have spent of each budget.
func (c *call) states(list []identity.Budget, shared bool) []BudgetState {
	states := make([]BudgetState, 0, len(list))
	for _, b := range list {
		w := &c.tenant.windows[indexOf(b)]
		settled, reserved := w.own.settled.plus(w.others.settled), w.own.reserved.plus(w.others.reserved)
		states = append(states, BudgetState{Budget: b, Used: settled.of(b), Reserved: reserved.of(b), Ends: time.Unix(w.end, 0), Shared: shared})
	}
	return states
}
