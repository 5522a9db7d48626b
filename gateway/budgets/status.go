package budgets

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/identity"
)

// errUnanswered is the result of a command of a round trip that failed.
var errUnanswered = errors.New("no answer")

// result returns the reply to a call with one window.
func result(cmd redis.Cmder, answered bool) (answer, error) {
	if !answered {
		return answer{}, errUnanswered
	}
	c, ok := cmd.(*redis.Cmd)
	if !ok {
		return answer{}, errUnanswered
	}
	reply, err := c.Result()
	if err != nil {
		return answer{}, err
	}
	return parse(reply, 1)
}

// State is how much of a budget is spent in the present window, over all replicas, in the unit of the budget.
type State struct {
	Budget         identity.Budget
	Used, Reserved int64 // by requests that have ended, and by those in progress
	Ends           time.Time
	Shared         bool // counted in Redis now; otherwise as this replica knew it last
}

// States returns the state of a tenant's budgets. It asks Redis, for at most 250 ms, and changes nothing.
func (l *Ledger) States(ctx context.Context, tenant string, list []identity.Budget) []State {
	if len(list) == 0 {
		return nil
	}
	now := l.now()
	windows, c := l.look(tenant, list, now)
	shared := false
	if l.redis != nil && !l.asker.Away() {
		bounded, cancel := context.WithTimeout(ctx, backgroundTime)
		defer cancel()
		a, err := l.ask(bounded, c)
		shared = err == nil && l.hear(c, a)
		for i := range windows {
			if shared {
				windows[i].others = a.others[i]
			}
		}
	}
	states := make([]State, 0, len(list))
	for _, b := range list {
		for _, w := range windows {
			if w.id.per == b.Per {
				all := part{w.own.settled.plus(w.others.settled), w.own.reserved.plus(w.others.reserved)}
				states = append(states, State{Budget: b, Used: all.settled.of(b), Reserved: all.reserved.of(b), Ends: w.end, Shared: shared || l.redis == nil})
			}
		}
	}
	return states
}

// look copies the windows of budgets, one for each period, and makes a call that reads them. A window that this process
// does not count is empty.
func (l *Ledger) look(tenant string, list []identity.Budget, now time.Time) ([]window, *call) {
	periods, n := periodsOf(list)
	windows := make([]window, n)
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.newCall(false)
	for i, per := range periods[:n] {
		begin, end := per.Window(now)
		id := windowID{tenant, per, begin.Unix()}
		windows[i] = window{id: id, key: keyOf(tenant, per, begin), end: end}
		if w := l.windows[id]; w != nil {
			windows[i] = *w
		}
		c.read(&windows[i])
	}
	return windows, c
}
