package budgets

import (
	"context"
	"errors"
	"time"
)

const (
	// flushInterval keeps the number of settling round trips far below that of requests.
	flushInterval = 250 * time.Millisecond
	probeInterval = 100 * time.Millisecond // between checks whether a probe is due
	flushBatch    = 256                    // calls in one round trip
	maxRefreshed  = 2000                   // quiet windows that are sent every five seconds
	// keepUnsent is how long after its end a window waits for an unavailable Redis: its key there has expired.
	keepUnsent = 24 * time.Hour
)

// Run tells Redis what requests have used, every 250 ms, and probes an unavailable Redis, until ctx ends. Then it tells
// the rest and waits for calls in progress, at most a second, and returns nil.
func (l *Ledger) Run(ctx context.Context) error {
	flush, try, refresh := time.NewTicker(flushInterval), time.NewTicker(probeInterval), time.NewTicker(refreshInterval)
	defer flush.Stop()
	defer try.Stop()
	defer refresh.Stop()
	beat := time.NewTicker(beatInterval)
	defer beat.Stop()
	whole := context.WithoutCancel(ctx)
	for {
		select {
		case <-ctx.Done():
			l.stop(whole)
			return nil
		case <-flush.C:
			if l.redis != nil && !l.asker.Away() {
				l.flush(whole)
			}
		case <-try.C:
			if l.redis != nil && l.asker.ProbeDue() {
				l.probe(whole)
			}
		case <-beat.C:
			if l.redis != nil && !l.asker.Away() {
				l.tellBeat(whole)
			}
		case <-refresh.C:
			l.refresh()
		}
	}
}

// stop tells Redis the rest, also if Redis was unavailable of late.
func (l *Ledger) stop(ctx context.Context) {
	if l.redis == nil {
		return
	}
	l.flush(ctx)
	l.asker.Drain(time.Second)
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.unsent); n > 0 {
		l.log.Warn().Int("windows", n).Msg("the last state of tenants' budgets could not be sent to Redis")
	}
}

// inBackground makes a call with a deadline of its own.
func (l *Ledger) inBackground(ctx context.Context, c *call) error {
	bounded, cancel := context.WithTimeout(ctx, backgroundTime)
	defer cancel()
	a, err := l.ask(bounded, c)
	if err == nil {
		l.hear(c, a)
	}
	return err
}

// probe tests an unavailable Redis like a request: Redis must write, and answer in time. It tries twice, because the
// first try must open a connection.
func (l *Ledger) probe(ctx context.Context) {
	ask := func() bool {
		err := l.inBackground(ctx, l.beatCall())
		return err == nil || errors.Is(err, errReply)
	}
	good := ask()
	if good {
		began := l.now()
		good = ask() && l.now().Sub(began) <= l.budget()
	}
	if good {
		l.flush(ctx) // before requests ask: what this replica has counted alone
	}
	l.asker.Probed(good)
	if good {
		l.log.Info().Msg("tenants' budgets are counted over all replicas again")
	}
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
	answered := l.scripts.Exec(ctx, pipe, backgroundTime) == nil
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
