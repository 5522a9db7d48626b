package chaos

import (
	"context"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// breakerRow is of the breakers that replicas share through Redis. Backends are picked by turns, or one that fails
// draws too few requests to be judged soon. The load begins with the fault: evidence of ten seconds counts, and the
// many successes before it would speak for the backend.
func breakerRow() Row {
	return Row{
		ID: "S5", Fault: "a backend answers 500 for a while; only one replica has requests", Short: true, Added: -1, Recover: probedLater,
		Promise: "0 failed; all replicas' breakers open ≤ 1 s after the first; while open no user request, one probe at a time for the whole fleet",
		Setup:   Setup{Drafts: -1, Targets: 3, Rate: -1, Settings: map[string]string{"route.policy": "round_robin"}}, Run: tripped,
	}
}

const (
	maxTripDelay = time.Second      // two exchanges
	probedLater  = 18 * time.Second // open for 2, 4 and 8 s, each a fifth longer; probes and exchanges
	// evidenceLasts is how long what was seen of a backend counts, and a little.
	evidenceLasts = 11 * time.Second
	probedFor     = 8 * time.Second // tried after 2 s and 4 s more; half-open between each
	tripLook      = 20 * time.Millisecond
	maxTrip       = 10 * time.Second // for the first to trip
)

// openBreakers is how many breakers of a gateway are not closed.
func openBreakers(ctx context.Context, g *Gateway) int {
	m, err := g.Metrics(ctx)
	if err != nil {
		return 0
	}
	return int(m.Sum("foregate_breaker_state")+1) / 2
}

// Closed reports whether every breaker of every gateway is.
func (w *Testbed) Closed(ctx context.Context) bool {
	for _, g := range w.Gateways {
		if openBreakers(ctx, g) > 0 {
			return false
		}
	}
	return true
}

// opened waits until every gateway has an open breaker, and tells how long after the first
// the last had.
func (w *Testbed) opened(ctx context.Context) time.Duration {
	at := make([]time.Time, len(w.Gateways))
	var all sync.WaitGroup
	for i, g := range w.Gateways {
		all.Go(func() {
			for end := time.Now().Add(maxTrip); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(tripLook) {
				if openBreakers(ctx, g) > 0 {
					at[i] = time.Now()
					return
				}
			}
		})
	}
	all.Wait()
	var first, last time.Time
	for i, t := range at {
		if t.IsZero() {
			w.Fail("gateway %d: no breaker opened within %v", i, maxTrip)
			return 0
		}
		if first.IsZero() || t.Before(first) {
			first = t
		}
		if t.After(last) {
			last = t
		}
	}
	return last.Sub(first)
}

func tripped(ctx context.Context, w *Testbed) error {
	for _, g := range w.Gateways[1:] {
		g.OutOfTurn.Store(true)
	}
	sick := w.Targets[0]
	if err := w.Hold(ctx, evidenceLasts); err != nil {
		return err
	}
	return w.InjectUntil(ctx, 0, func() error {
		if err := sick.SetFault(vllmsim.Fault{Status: 500}); err != nil {
			return err
		}
		w.StartLoad(usualRate, nil).Phase(During)
		took := w.opened(ctx)
		w.Note("the last %v after the first", round(took))
		if took > w.TimerLag.Bound(maxTripDelay) {
			w.Fail("the last breaker opened %v after the first, promised %v", round(took), maxTripDelay)
		}
		for _, g := range w.Gateways {
			g.OutOfTurn.Store(false)
		}
		if err := w.Hold(ctx, time.Second); err != nil { // what was on its way has come
			return err
		}
		before := sick.State().Requests
		if err := w.Hold(ctx, probedFor); err != nil {
			return err
		}
		after := sick.State().Requests
		users, probes := after[chatPath]-before[chatPath], after[completionsPath]-before[completionsPath]
		w.Note("%d requests and %d probes in %v", users, probes, probedFor)
		if users > 0 {
			w.Fail("%d requests of users met an open breaker", users)
		}
		if probes < 1 || probes > 3 {
			w.Fail("%d probes, want one to three", probes)
		}
		return nil
	}, func() error { return sick.SetFault(vllmsim.Fault{}) }, w.Closed)
}
