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
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Fault is one that a soak makes.
type Fault struct {
	Name, Text string

	// begin makes it; undo ends it, and is nil where it ends by itself.
	begin func(ctx context.Context, w *wreck) (undo func(ctx context.Context) error, err error)
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

// Faults are all faults, in the order in which they are listed.
func Faults() []Fault {
	return slices.Concat(engineFaults(), redisFaults(), networkFaults(), operations())
}

func engineFaults() []Fault {
	killed := func(pool string) func(context.Context, *wreck) (func(context.Context) error, error) {
		return func(_ context.Context, w *wreck) (func(context.Context) error, error) {
			e := w.engine(pool)
			e.Kill()
			return e.Start, nil
		}
	}
	return []Fault{
		{"target-killed", "SIGKILL of a target, and a start at the end", killed(chaos.TargetPool)},
		{"draft-killed", "SIGKILL of a draft, and a start at the end", killed(chaos.DraftPool)},
		{"target-frozen", "SIGSTOP of a target, SIGCONT at the end", func(_ context.Context, w *wreck) (func(context.Context) error, error) {
			e := w.engine(chaos.TargetPool)
			return func(context.Context) error { return e.Thaw() }, e.Freeze()
		}},
		{"metrics-lie", "a target's /metrics are frozen, or no metrics, or its KV cache is always empty", func(ctx context.Context, w *wreck) (func(context.Context) error, error) {
			empty := 0.0
			lies := []vllmsim.Fault{{Metrics: "frozen"}, {Metrics: "garbage"}, {Metrics: "nan"}, {KVUsage: &empty}}
			return sick(ctx, w.engine(chaos.TargetPool), lies[w.random.IntN(len(lies))])
		}},
		{"target-errors", "a target answers half of the requests with 500", func(ctx context.Context, w *wreck) (func(context.Context) error, error) {
			return sick(ctx, w.engine(chaos.TargetPool), vllmsim.Fault{Status: 500, Rate: 0.5})
		}},
		{"draft-aborts", "a draft aborts answers after 6 tokens", func(ctx context.Context, w *wreck) (func(context.Context) error, error) {
			return sick(ctx, w.engine(chaos.DraftPool), vllmsim.Fault{AbortAfterTokens: 6})
		}},
	}
}

// sick has something go wrong at an engine until it is undone.
func sick(ctx context.Context, e *chaos.Engine, f vllmsim.Fault) (func(context.Context) error, error) {
	return func(ctx context.Context) error { return e.SetFault(ctx, vllmsim.Fault{}) }, e.SetFault(ctx, f)
}

func redisFaults() []Fault {
	return []Fault{
		{"redis-frozen", "SIGSTOP of Redis, SIGCONT at the end", func(_ context.Context, w *wreck) (func(context.Context) error, error) {
			s := w.Redis.Servers[0]
			return func(context.Context) error { return s.Thaw() }, s.Freeze()
		}},
		{"redis-emptied", "SIGKILL of Redis, started empty at the end", func(_ context.Context, w *wreck) (func(context.Context) error, error) {
			s := w.Redis.Servers[0]
			return s.Start, s.Kill()
		}},
		{"redis-slow", "every answer of Redis is 50 ms late", func(_ context.Context, w *wreck) (func(context.Context) error, error) {
			w.Redis.Set(chaos.NetworkFault{Delay: 50 * time.Millisecond})
			return func(context.Context) error { w.Redis.Set(chaos.NetworkFault{}); return nil }, nil
		}},
	}
}

const because = "a fault of the soak"

func networkFaults() []Fault {
	bad := func(pool string, f chaos.NetworkFault) func(context.Context, *wreck) (func(context.Context) error, error) {
		return func(_ context.Context, w *wreck) (func(context.Context) error, error) {
			p := w.pick(pool, true).Proxy
			p.Set(f)
			return func(context.Context) error { p.Set(chaos.NetworkFault{}); return nil }, nil
		}
	}
	return []Fault{
		{"network-slow", "what a target sends is 30 ms late and has 20 KB/s", bad(chaos.TargetPool, chaos.NetworkFault{Delay: 30 * time.Millisecond, Throttle: 20_000})},
		{"streams-cut", "connections to a target are reset after 3,000 bytes", bad(chaos.TargetPool, chaos.NetworkFault{CutAfter: 3000, Reset: true})},
		{"network-silent", "connections to a draft are accepted and say nothing", bad(chaos.DraftPool, chaos.NetworkFault{Mute: true})},
	}
}

func operations() []Fault {
	return []Fault{
		{"replica-restarted", "SIGTERM of a replica, which drains, and a start", func(ctx context.Context, w *wreck) (func(context.Context) error, error) {
			return nil, w.restart(ctx, w.Gateways[len(w.Gateways)-1])
		}},
		{"bad-threshold", "shed.low set live below the pools' usage, rolled back at the end", badThreshold},
		{"target-drained", "a target drained at one replica, undrained at another", drained},
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
func badThreshold(ctx context.Context, w *wreck) (func(context.Context) error, error) {
	file := w.Gateways[0].File()
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

// drained takes a target out as an operator does before maintenance.
func drained(ctx context.Context, w *wreck) (func(context.Context) error, error) {
	backend := "backend=" + url.QueryEscape(w.engine(chaos.TargetPool).URL())
	last := w.Gateways[len(w.Gateways)-1]
	return func(ctx context.Context) error { return last.Order(ctx, "undrain?"+backend, "") }, w.Gateways[0].Order(ctx, "drain?why=soak&"+backend, "")
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
