package chaos

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// lostRows are figures: how long a backend that is of no use any more still gets requests.
func lostRows() []Row {
	straight := engines(onTheTarget, map[string]string{"route.policy": "round_robin"})
	row := func(id, fault string, begin, end func(context.Context, *Engine) error) Row {
		return Row{
			ID: id, Fault: fault, Promise: fmt.Sprintf("0 failed; it gets nothing more after %v", maxLost), Added: -1, Setup: straight, Run: lost(begin, end),
		}
	}
	return []Row{
		row("L1", "a backend is dead: its process was killed (SIGKILL)",
			func(_ context.Context, e *Engine) error { e.Kill(); return nil },
			func(ctx context.Context, e *Engine) error { return e.Start(ctx) }),
		row("L2", "a backend hangs: its process is frozen (SIGSTOP)",
			func(_ context.Context, e *Engine) error { return e.Freeze() },
			func(_ context.Context, e *Engine) error { return e.Thaw() }),
		row("L3", "a backend lies: its health and metrics say that all is well, and it answers each request with 500",
			func(ctx context.Context, e *Engine) error { return e.SetFault(ctx, vllmsim.Fault{Status: 500}) },
			func(ctx context.Context, e *Engine) error { return e.SetFault(ctx, vllmsim.Fault{}) }),
	}
}

const (
	maxLost  = 2 * time.Second // what article A says of a dead backend
	lostSpan = 6 * time.Second // of the fault
	lostLook = 10 * time.Millisecond
)

// lost makes the fault at one of two backends, and measures until when the gateways send requests of users there.
func lost(begin, end func(context.Context, *Engine) error) func(context.Context, *Testbed) error {
	return func(ctx context.Context, w *Testbed) error {
		sick := w.enginesOf(TargetPool)[0]
		if w.sentTo(ctx, sick) == 0 {
			return fmt.Errorf("the engine at %s had no request before the fault", sick.addr)
		}
		var last time.Duration
		err := w.InjectUntil(ctx, 0, func() error {
			began := time.Now()
			if err := begin(ctx, sick); err != nil {
				return err
			}
			last = w.lastSent(ctx, sick, began)
			return nil
		}, func() error { return end(ctx, sick) }, w.Closed)
		w.figure = last
		w.Note("the last request came after %v", round(last))
		if last > w.TimerLag.Bound(maxLost) {
			w.Fail("it got requests for %v, promised %v", round(last), maxLost)
		}
		return err
	}
}

// lastSent looks for as long as the fault lasts, and returns how long after its beginning the last request was sent there.
func (w *Testbed) lastSent(ctx context.Context, e *Engine, began time.Time) (last time.Duration) {
	sent := w.sentTo(ctx, e)
	for time.Since(began) < lostSpan && w.Hold(ctx, lostLook) == nil {
		looked := time.Since(began)
		if now := w.sentTo(ctx, e); now > sent {
			sent, last = now, looked
		}
	}
	return last
}

// sentTo is how much all gateways have sent to an engine, in prompt tokens of the requests of users.
func (w *Testbed) sentTo(ctx context.Context, e *Engine) (sum float64) {
	host, port, _ := net.SplitHostPort(e.addr) // the address of a listener
	for _, g := range w.Gateways {
		if m, err := g.Metrics(ctx); err == nil {
			sum += m.Sum("foregate_prefix_prompt_tokens_total", fmt.Sprintf("backend=%q", host+"-"+port))
		}
	}
	return sum
}
