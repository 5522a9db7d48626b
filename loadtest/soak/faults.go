package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"time"

	"github.com/foregate/foregate/loadtest/chaos"
	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Fault is one that a soak makes.
type Fault struct {
	Name, Text string

	// begin makes it; undo ends it, and is nil where it ends by itself.
	begin func(ctx context.Context, w *wreck) (undo, error)
}

// wreck is what faults act on.
type wreck struct {
	*chaos.Testbed
	random *rand.Rand
}

// engine is one of a pool, by chance.
func (w *wreck) engine(pool string) *chaos.Engine { return w.pick(pool, false) }

// pick is an engine of a pool, by chance; proxied: of those that are reached through a proxy.
func (w *wreck) pick(pool string, proxied bool) *chaos.Engine {
	all := slices.DeleteFunc(slices.Clone(w.Engines), func(e *chaos.Engine) bool { return e.Pool != pool || proxied && e.Proxy == nil })
	return all[w.random.IntN(len(all))]
}

// undo ends a fault.
type undo func(ctx context.Context) error

// Faults are all faults, in the order in which they are listed.
func Faults() []Fault {
	killed := func(pool string) func(context.Context, *wreck) (undo, error) {
		return func(_ context.Context, w *wreck) (undo, error) {
			e := w.engine(pool)
			e.Kill()
			return e.Start, nil
		}
	}
	frozen := func(s *process.Service) (undo, error) {
		return func(context.Context) error { return s.Thaw() }, s.Freeze()
	}
	sick := func(pool string, faults ...vllmsim.Fault) func(context.Context, *wreck) (undo, error) {
		return func(ctx context.Context, w *wreck) (undo, error) {
			e := w.engine(pool)
			return func(ctx context.Context) error { return e.SetFault(ctx, vllmsim.Fault{}) }, e.SetFault(ctx, faults[w.random.IntN(len(faults))])
		}
	}
	network := func(pool string, f process.NetworkFault) func(context.Context, *wreck) (undo, error) {
		return func(_ context.Context, w *wreck) (undo, error) {
			p := w.pick(pool, true).Proxy
			p.Set(f)
			return func(context.Context) error { p.Set(process.NetworkFault{}); return nil }, nil
		}
	}
	empty := 0.0
	return []Fault{
		{"target-killed", "SIGKILL of a target, and a start at the end", killed(chaos.TargetPool)},
		{"draft-killed", "SIGKILL of a draft, and a start at the end", killed(chaos.DraftPool)},
		{"target-frozen", "SIGSTOP of a target, SIGCONT at the end", func(_ context.Context, w *wreck) (undo, error) { return frozen(&w.engine(chaos.TargetPool).Service) }},
		{
			"metrics-lie", "a target's /metrics are frozen, or no metrics, or its KV cache is always empty",
			sick(chaos.TargetPool, vllmsim.Fault{Metrics: "frozen"}, vllmsim.Fault{Metrics: "garbage"}, vllmsim.Fault{Metrics: "nan"}, vllmsim.Fault{KVUsage: &empty}),
		},
		{"target-errors", "a target answers half of the requests with 500", sick(chaos.TargetPool, vllmsim.Fault{Status: 500, Rate: 0.5})},
		{"draft-aborts", "a draft aborts answers after 6 tokens", sick(chaos.DraftPool, vllmsim.Fault{AbortAfterTokens: 6})},
		{"redis-frozen", "SIGSTOP of Redis, SIGCONT at the end", func(_ context.Context, w *wreck) (undo, error) { return frozen(&w.Redis.Servers[0].Service) }},
		{"redis-emptied", "SIGKILL of Redis, started empty at the end", func(_ context.Context, w *wreck) (undo, error) {
			w.Redis.Servers[0].Kill()
			return w.Redis.Servers[0].Start, nil
		}},
		{"redis-slow", "every answer of Redis is 50 ms late", func(_ context.Context, w *wreck) (undo, error) {
			w.Redis.Set(process.NetworkFault{Delay: 50 * time.Millisecond})
			return func(context.Context) error { w.Redis.Set(process.NetworkFault{}); return nil }, nil
		}},
		{"network-slow", "what a target sends is 30 ms late and has 20 KB/s", network(chaos.TargetPool, process.NetworkFault{Delay: 30 * time.Millisecond, Throttle: 20_000})},
		{"streams-cut", "connections to a target are reset after 3,000 bytes", network(chaos.TargetPool, process.NetworkFault{CutAfter: 3000, Reset: true})},
		{"network-silent", "connections to a draft are accepted and say nothing", network(chaos.DraftPool, process.NetworkFault{Mute: true})},
		{"replica-restarted", "SIGTERM of a replica, which drains, and a start", func(ctx context.Context, w *wreck) (undo, error) {
			return nil, w.restart(ctx, w.Gateways[len(w.Gateways)-1])
		}},
		{"bad-threshold", "shed.low set live below the pools' usage, rolled back at the end", badThreshold},
		{"target-drained", "a target drained at one replica, undrained at another", func(ctx context.Context, w *wreck) (undo, error) {
			backend := "backend=" + url.QueryEscape(w.engine(chaos.TargetPool).URL())
			last := w.Gateways[len(w.Gateways)-1]
			return func(ctx context.Context) error { return last.Order(ctx, "undrain?"+backend, "") }, w.Gateways[0].Order(ctx, "drain?why=soak&"+backend, "")
		}},
	}
}

// restart ends a replica in order and starts it again.
func (w *wreck) restart(ctx context.Context, g *chaos.Gateway) error {
	if err := g.Terminate(); err != nil {
		return err
	}
	ended, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := g.Ended(ended); err != nil {
		return fmt.Errorf("gateway %d after SIGTERM: %w", g.Number, err)
	}
	return g.Start(ctx)
}

// badThreshold changes a setting and takes the change back by the version before.
func badThreshold(ctx context.Context, w *wreck) (undo, error) {
	const because = "a fault of the soak"
	file := w.Gateways[0].File
	text, err := w.Operator(ctx, "settings", "log", "-c", file, "--limit", "1", "--json")
	if err != nil {
		return nil, err
	}
	var history []struct{ Version int64 }
	if err := json.Unmarshal([]byte(text), &history); err != nil || len(history) == 0 {
		return nil, fmt.Errorf("the history of the settings is %q: %w", text, err)
	}
	_, err = w.Operator(ctx, "settings", "set", "-c", file, "--because", because, "shed.low=0.06")
	return func(ctx context.Context) error {
		_, err := w.Operator(ctx, "settings", "rollback", "-c", file, "--because", because, fmt.Sprint(history[0].Version))
		return err
	}, err
}

// schedule is the order of n faults: all in a random order, and all again in another.
func schedule(all []Fault, n int, random *rand.Rand) (out []Fault) {
	for len(out) < n {
		for _, i := range random.Perm(len(all)) {
			out = append(out, all[i])
		}
	}
	return out[:n]
}
