package budgets

import (
	"context"
	"time"

	"github.com/foregate/foregate/internal/redis/lookup"
)

const (
	flushBatch   = 256  // calls in one round trip
	maxRefreshed = 2000 // quiet windows that are sent every five seconds
	// keepUnsent is how long after its end a window waits for an unavailable Redis: its key there has expired.
	keepUnsent = 24 * time.Hour
)

// Run tells Redis what requests have used, every 250 ms, and probes an unavailable Redis, until ctx ends. Then it tells
// the rest and waits for calls in progress, at most a second, and returns nil.
func (l *Ledger) Run(ctx context.Context) error {
	l.refreshedAt = l.now()
	l.asker.Run(ctx, lookup.Background{
		Flush: func(flush context.Context) {
			l.keepUp(flush)
			if l.redis != nil && (ctx.Err() != nil || !l.asker.Away()) { // at the end also if Redis was unavailable of late
				l.flush(flush)
			}
		},
		Probe: func(ctx context.Context) error { return l.inBackground(ctx, l.beatCall()) },
		Back: func(ctx context.Context) {
			l.flush(ctx) // what this replica has counted alone
			l.log.Info().Msg("tenants' budgets are counted over all replicas again")
		},
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.unsent); n > 0 {
		l.log.Warn().Int("windows", n).Msg("the last state of tenants' budgets could not be sent to Redis")
	}
	return nil
}

// keepUp does what is due less often than a flush.
func (l *Ledger) keepUp(ctx context.Context) {
	now := l.now()
	if now.Sub(l.refreshedAt) >= refreshInterval {
		l.refreshedAt = now
		l.refresh()
	}
	if l.redis != nil && now.Sub(l.beatAt) >= beatInterval && !l.asker.Away() {
		l.beatAt = now
		l.tellBeat(ctx)
	}
}

// inBackground makes a call with a deadline of its own.
func (l *Ledger) inBackground(ctx context.Context, c *call) error {
	bounded, cancel := context.WithTimeout(ctx, lookup.BackgroundTime)
	defer cancel()
	a, err := l.ask(bounded, c)
	if err == nil {
		l.hear(c, a)
	}
	return err
}

// beatCall is a call without a window: it shows whether Redis has lost data.
func (l *Ledger) beatCall() *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newCall(false)
}

// tellBeat looks whether Redis has lost data, if this replica counts a window.
func (l *Ledger) tellBeat(ctx context.Context) {
	l.mu.Lock()
	counts := len(l.windows) > 0
	l.mu.Unlock()
	if counts {
		_ = l.inBackground(ctx, l.beatCall()) // a failure shows at the next request
	}
}

// refresh forgets windows that have ended, and has others sent: some that are quiet, each time others, because the order of
// a map is random, and all with reservations.
func (l *Ledger) refresh() {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	quiet := 0
	for id, w := range l.windows {
		switch {
		case now.Before(w.end):
		case l.idle(w), l.redis == nil && w.own.reserved == amounts{}:
			delete(l.windows, id)
			continue
		case now.Sub(w.end) > keepUnsent:
			delete(l.windows, id)
			delete(l.unsent, w)
			continue
		}
		if w.own.reserved == (amounts{}) {
			quiet++
		}
		if l.redis != nil && quiet <= maxRefreshed {
			l.unsent[w] = struct{}{}
		}
	}
}

// flush tells Redis the state of all windows that it may not know.
func (l *Ledger) flush(ctx context.Context) {
	l.mu.Lock()
	list := make([]*window, 0, len(l.unsent))
	for w := range l.unsent {
		list = append(list, w)
	}
	l.mu.Unlock()
	for len(list) > 0 {
		n := min(len(list), flushBatch)
		if !l.tell(ctx, list[:n]) {
			return
		}
		list = list[n:]
	}
}

// tell makes one round trip; two more if Redis does not know the script. It reports whether Redis has answered. What
// failed is told again.
func (l *Ledger) tell(ctx context.Context, list []*window) bool {
	now, pipe := l.now(), l.scripts.Pipeline()
	calls := make([]*call, 0, len(list))
	l.mu.Lock()
	for _, w := range list {
		delete(l.unsent, w) // from here on, every change is told anew
		c := l.newCall(false)
		c.add(w, amounts{}, amounts{}, now)
		calls = append(calls, c)
		budgetScript.EvalSha(ctx, pipe, c.keys, c.args...)
	}
	l.mu.Unlock()
	cmds := pipe.Cmds()
	answered := l.scripts.Exec(ctx, pipe, lookup.BackgroundTime) == nil
	for i, cmd := range cmds {
		a, err := result(cmd, answered, 1)
		if err == nil {
			l.hear(calls[i], a)
			continue
		}
		l.mu.Lock()
		l.unsent[list[i]] = struct{}{}
		l.mu.Unlock()
	}
	return answered
}
