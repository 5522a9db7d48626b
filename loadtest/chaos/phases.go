package chaos

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest/process"
)

// Short reports whether the short form was asked for.
func (tb *Testbed) Short() bool { return tb.opts.Short }

// Span is how long a phase lasts: short in the short form, else whole times the scale.
func (tb *Testbed) Span(short, whole time.Duration) time.Duration {
	if tb.opts.Short {
		return short
	}
	return time.Duration(float64(whole) * tb.opts.Scale)
}

// Hold lets the load go on for a while.
func (tb *Testbed) Hold(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// repeat does something every so often, for a span.
func (tb *Testbed) repeat(ctx context.Context, span, every time.Duration, what func() error) error {
	for end := time.Now().Add(span); time.Now().Before(end); {
		if err := what(); err != nil {
			return err
		}
		if err := tb.Hold(ctx, every); err != nil {
			return err
		}
	}
	return nil
}

// Inject is one fault: begin, hold while the load goes on, end; then it waits until the
// gateways share with each other again and keeps the longest time that this took. What is
// sent from the fault's beginning to the recovery counts as sent during the fault.
func (tb *Testbed) Inject(ctx context.Context, hold time.Duration, begin, end func() error) error {
	return tb.InjectUntil(ctx, hold, begin, end, tb.Shared)
}

// maxRecovery is how long a recovery is waited for.
const maxRecovery = 30 * time.Second

// InjectUntil is Inject with another word on when all is as before.
func (tb *Testbed) InjectUntil(ctx context.Context, hold time.Duration, begin, end func() error, well func(context.Context) bool) error {
	tb.strikes()
	if err := begin(); err != nil {
		return err
	}
	if err := tb.Hold(ctx, hold); err != nil {
		return err
	}
	if err := end(); err != nil {
		return err
	}
	began := time.Now()
	ended := func(g *Gateway) bool { return !g.Alive() && !g.Leaving.Load() } // that should not have: nothing will be as before
	err := process.Poll(ctx, maxRecovery, func() bool { return slices.ContainsFunc(tb.Gateways, ended) || well(ctx) })
	if err != nil {
		tb.Fail("not recovered %v after the fault's end: %v; modes %v", maxRecovery, err, tb.modes(ctx))
	}
	tb.Recovered = max(tb.Recovered, time.Since(began))
	tb.Phase(After)
	return nil
}

// nothing is a begin or an end of a fault that has none.
func nothing() error { return nil }

// strikes begins a fault.
func (tb *Testbed) strikes() {
	tb.injections++
	tb.Phase(During)
}

// Phase marks what all loads send from here on.
func (tb *Testbed) Phase(name string) {
	for _, l := range tb.loads {
		l.Phase(name)
	}
}

// modes returns the degradation level of each gateway; "" means no answer.
func (tb *Testbed) modes(ctx context.Context) (out []string) {
	for _, g := range tb.Gateways {
		m, _ := g.Metrics(ctx) // as said
		out = append(out, m.Mode())
	}
	return out
}

// every reports whether it holds of every gateway.
func (tb *Testbed) every(ok func(g *Gateway) bool) bool {
	return !slices.ContainsFunc(tb.Gateways, func(g *Gateway) bool { return !ok(g) })
}

// Shared reports whether every gateway shares with all others.
func (tb *Testbed) Shared(ctx context.Context) bool {
	return tb.every(func(g *Gateway) bool {
		m, err := g.Metrics(ctx)
		if err != nil || m.Mode() != "shared" {
			return false
		}
		n, err := m.Total("foregate_fleet_replicas")
		return err != nil || int(n) == len(tb.Gateways)
	})
}

// openBreakers is how many breakers of a gateway are not closed.
func openBreakers(ctx context.Context, g *Gateway) int {
	return int(g.sum(ctx, "foregate_breaker_state")+1) / 2
}

// closed reports whether every breaker of every gateway is.
func (tb *Testbed) closed(ctx context.Context) bool {
	return tb.every(func(g *Gateway) bool { return openBreakers(ctx, g) == 0 })
}

// Until waits until ok, at most for limit, and tells how long it took. What does not come
// in time breaks the row's promise.
func (tb *Testbed) Until(ctx context.Context, limit time.Duration, what string, ok func() bool) time.Duration {
	began := time.Now()
	if err := process.Poll(ctx, tb.TimerLag.Bound(limit), ok); err != nil {
		tb.Fail("%s: not within %v", what, limit)
	}
	return time.Since(began)
}

// Within breaks the promise where a time is longer than promised.
func (tb *Testbed) Within(what string, d, promised time.Duration) {
	tb.Check(d <= tb.TimerLag.Bound(promised), "%s: %v, promised %v", what, round(d), promised)
}

// Note puts words beside the row in the table.
func (tb *Testbed) Note(format string, args ...any) {
	tb.Notes = append(tb.Notes, fmt.Sprintf(format, args...))
}

// Fail says which promise was not kept; the row fails, and goes on.
func (tb *Testbed) Fail(format string, args ...any) {
	tb.Failures = append(tb.Failures, fmt.Sprintf(format, args...))
}

// Check is Fail where something does not hold.
func (tb *Testbed) Check(ok bool, format string, args ...any) {
	if !ok {
		tb.Fail(format, args...)
	}
}

// Operator runs the gateway's own command as an operator does, and returns what it prints.
func (tb *Testbed) Operator(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, tb.opts.Gateway, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("foregate %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// footprint is what a gateway holds when nobody asks it anything.
type footprint struct {
	pid        int
	goroutines float64
	heap       float64 // bytes that live, after a collection
	lines      int
}

const (
	leakPatience  = 6 * time.Second // gateways keep idle connections to backends for 4 s
	leakSlack     = 12              // goroutines: a connection of a scrape, of a pool of Redis
	heapSlack     = 10 << 20
	freeLines     = 10
	linesPerFault = 10
)

// footprintOf measures it; the collector runs before.
func footprintOf(ctx context.Context, g *Gateway) (footprint, error) {
	if _, err := g.Page(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return footprint{}, err
	}
	m, err := g.Metrics(ctx)
	return footprint{pid: g.PID(), lines: g.Log.Count(), goroutines: m.Sum("go_goroutines"), heap: m.Sum("go_memstats_heap_alloc_bytes")}, err
}

// invariants checks, with no load any more, what holds in every row: processes alive,
// goroutines and heap as before the load, few log lines.
func (tb *Testbed) invariants(ctx context.Context) {
	for i, g := range tb.Gateways {
		if g.Leaving.Load() {
			continue
		}
		if !g.Alive() {
			tb.Fail("gateway %d has ended: %v", i, g.Process().Status())
			continue
		}
		was := tb.base[i]
		if was.pid != g.PID() || tb.Accounted && tb.Short() {
			continue // a new life has no baseline; idle connections take seconds to go, which the whole form waits for
		}
		var is footprint
		var err error
		if process.Poll(ctx, tb.TimerLag.Bound(leakPatience), func() bool {
			is, err = footprintOf(ctx, g)
			return err == nil && is.goroutines <= was.goroutines+leakSlack && is.heap <= was.heap+heapSlack
		}) != nil {
			tb.Fail("gateway %d: goroutines %.0f, before %.0f; heap %.1f MB, before %.1f MB; %v",
				i, is.goroutines, was.goroutines, is.heap/1e6, was.heap/1e6, err)
		}
		lines, maximum := g.Log.Count()-was.lines, freeLines+linesPerFault*tb.injections+tb.due
		tb.Check(lines <= maximum, "gateway %d logged %d lines beside access records, at most %d are due", i, lines, maximum)
	}
}
