package budgets

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redis/lookup"
)

// errUnanswered is the result of a command of a round trip that failed.
var errUnanswered = errors.New("no answer")

// result returns the reply to a call with n windows.
func result(cmd redis.Cmder, answered bool, n int) (answer, error) {
	c, ok := cmd.(*redis.Cmd)
	if !answered || !ok {
		return answer{}, errUnanswered
	}
	reply, err := c.Result()
	if err != nil {
		return answer{}, err
	}
	return parse(reply, n)
}

// Query asks for the state of a tenant's budgets.
type Query struct {
	Tenant  string
	Budgets []identity.Budget
}

// State is how much of a budget is spent in the present window, over all replicas, in the unit of the budget.
type State struct {
	Budget         identity.Budget
	Used, Reserved int64 // by requests that have ended, and by those in progress
	Ends           time.Time
	Shared         bool // counted in Redis now; otherwise as this replica knew it last
}

// States returns the states of the budgets of each query. It asks Redis, 256 tenants in a round trip, until ctx ends or a
// round trip takes longer than 250 ms, and changes nothing there.
func (l *Ledger) States(ctx context.Context, list []Query) [][]State {
	now := l.now()
	looks := make([]look, 0, len(list))
	for _, q := range list {
		looks = append(looks, l.look(q, now))
	}
	if l.redis != nil && !l.asker.Away() {
		for part := range slices.Chunk(looks, flushBatch) {
			if ctx.Err() != nil || !l.read(ctx, part) {
				break
			}
		}
	}
	states := make([][]State, 0, len(list))
	for i := range looks {
		states = append(states, looks[i].states(list[i].Budgets))
	}
	return states
}

// look is a copy of a tenant's windows, one for each period, and the call that reads them.
type look struct {
	windows []window
	call    *call
	shared  bool
}

// look copies the windows of budgets. A window that this process does not count is empty.
func (l *Ledger) look(q Query, now time.Time) look {
	periods, n := periodsOf(q.Budgets)
	k := look{windows: make([]window, n), shared: l.redis == nil}
	l.mu.Lock()
	defer l.mu.Unlock()
	k.call = l.newCall(false)
	for i, per := range periods[:n] {
		begin, end := per.Window(now)
		id := windowID{q.Tenant, per, begin.Unix()}
		k.windows[i] = window{id: id, key: keyOf(q.Tenant, per, begin), end: end}
		if w := l.windows[id]; w != nil {
			k.windows[i] = *w
		}
		k.call.read(&k.windows[i])
	}
	return k
}

// read makes one round trip for the windows that have any, and reports whether Redis has answered.
func (l *Ledger) read(ctx context.Context, part []look) bool {
	pipe := l.scripts.Pipeline()
	var asked []*look
	for i := range part {
		if k := &part[i]; len(k.windows) > 0 {
			asked = append(asked, k)
			budgetScript.EvalSha(ctx, pipe, k.call.keys, k.call.args...)
		}
	}
	cmds := pipe.Cmds()
	answered := l.scripts.Exec(ctx, pipe, lookup.BackgroundTime) == nil
	for i, k := range asked {
		a, err := result(cmds[i], answered, len(k.windows))
		if k.shared = err == nil && l.hear(k.call, a); !k.shared {
			continue
		}
		for j := range k.windows {
			k.windows[j].others = a.others[j]
		}
	}
	return answered
}

// states adds up what this process and the others have spent of each budget.
func (k *look) states(list []identity.Budget) []State {
	states := make([]State, 0, len(list))
	for _, b := range list {
		for _, w := range k.windows {
			if w.id.per == b.Per {
				settled, reserved := w.own.settled.plus(w.others.settled), w.own.reserved.plus(w.others.reserved)
				states = append(states, State{Budget: b, Used: settled.of(b), Reserved: reserved.of(b), Ends: w.end, Shared: k.shared})
			}
		}
	}
	return states
}
