package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// redisRows are faults of one Redis server and of the way to it.
func redisRows() []Row {
	const promise = "0 failed; + ≤ 15 ms; shared again ≤ 2 s"
	return []Row{
		{
			ID: "R1", Fault: "Redis killed, and restarted empty; tenants at half of their limits", Short: true, Recover: backAgain,
			Promise: "0 failed, 0 limited; level local ≤ 1.5 s, reported ≤ 2 s; shared again ≤ 2 s", Setup: Setup{Config: halfLimits}, Run: outage(killed, start),
		},
		{
			ID: "R2", Fault: "Redis frozen (SIGSTOP); then open connections lose all data, and new ones work", Short: true, Recover: backAgain,
			Promise: "0 failed; + ≤ 15 ms p99; level local ≤ 1.5 s, reported ≤ 2 s; shared again ≤ 2 s", Run: withinRedisBudget(inTurn(outage(frozen, thaw), blackHole)),
		},
		{
			ID: "R3", Fault: fmt.Sprintf("every answer of Redis is late, by %v in turn", lates), Recover: backAgain,
			Promise: "0 failed; + ≤ 15 ms p99; ≤ 30 connections and 20 per 1,000 requests; shared again ≤ 2 s", Run: withinRedisBudget(slow),
		},
		{ID: "R6", Fault: "Redis full: OOM, noeviction", Promise: "0 failed; reads continue; shared again ≤ 2 s", Short: true, Recover: backAgain, Run: full},
		{ID: "R7", Fault: "FLUSHALL every second", Promise: promise, Short: true, Recover: backAgain, Run: again(time.Second, "flushall")},
		{
			ID: "R13", Fault: "one replica cut off from Redis", Promise: "0 failed; it is at level local, the others share state; no flapping afterwards",
			Short: true, Recover: backAgain, Run: partitioned,
		},
		{
			ID: "R15", Fault: "split brain: one replica at another master", Promise: "0 failed; settings per side; one prober per side; one side again ≤ 30 s",
			Recover: 30 * time.Second, Run: splitBrain,
		},
	}
}

const (
	// alone is how long after Redis' end a gateway relies on nobody else's word.
	alone = 1500 * time.Millisecond
	// says is how much later its metrics tell that: with the next exchange, which is late
	// itself by then (250 ms between them, 250 ms of patience with each).
	says = 500 * time.Millisecond
	// backAgain is how long after Redis' return gateways share again: a pool that fails fast
	// dials once a second, and an exchange comes twice in scrape.interval.
	backAgain = 2 * time.Second

	replicasKey = "foregate:{fg}:replicas"
)

// inTurn makes one fault after the other.
func inTurn(faults ...step) step {
	return func(ctx context.Context, w *Testbed) error {
		for _, fault := range faults {
			if err := fault(ctx, w); err != nil {
				return err
			}
		}
		return nil
	}
}

// outage makes one fault for a while, and ends it.
func outage(begin, end step) step {
	return func(ctx context.Context, w *Testbed) error {
		return w.Inject(ctx, w.outage(), func() error { return begin(ctx, w) }, func() error { return end(ctx, w) })
	}
}

func (tb *Testbed) outage() time.Duration { return tb.Span(2*time.Second, 4*time.Second) }

// server is the one of a single Redis; of Sentinel, the first master.
func (tb *Testbed) server() *Server { return tb.Redis.Servers[0] }

// again gives the server a command every so often, for as long as an outage lasts.
func again(every time.Duration, command ...any) step {
	return func(ctx context.Context, w *Testbed) error {
		return w.Inject(ctx, 0, func() error {
			return w.repeat(ctx, w.outage(), every, func() error { return w.server().do(ctx, command...) })
		}, nothing)
	}
}

// commands gives the server commands, each in one string.
func commands(all ...string) step {
	return func(ctx context.Context, w *Testbed) error {
		for _, line := range all {
			var args []any
			for _, word := range strings.Fields(line) {
				args = append(args, word)
			}
			if err := w.server().do(ctx, args...); err != nil {
				return err
			}
		}
		return nil
	}
}

func start(ctx context.Context, w *Testbed) error { return w.server().Start(ctx) }
func thaw(_ context.Context, w *Testbed) error    { return w.server().Thaw() }
func kill(_ context.Context, w *Testbed) error    { w.server().Kill(); return nil }
func freeze(_ context.Context, w *Testbed) error  { return w.server().Freeze() }

// killed and frozen wait until every gateway is on its own.
var killed, frozen = inTurn(kill, local), inTurn(freeze, local)

func local(ctx context.Context, w *Testbed) error {
	w.Note("each for itself after %v", round(w.Until(ctx, alone+says, "every gateway is for itself", func() bool {
		return !slices.ContainsFunc(w.modes(ctx), func(m string) bool { return m != "local" })
	})))
	return nil
}

// halfLimits gives each tenant a limit of requests a minute of which the usual load is half.
func halfLimits(_ *Testbed, _ int, file map[string]any) {
	EachTenant(file, func(_ int, t map[string]any) { t["rpm"] = 2 * 60 * int(usualRate) / len(Tenants) })
}

func blackHole(ctx context.Context, w *Testbed) error {
	return w.Inject(ctx, 400*time.Millisecond, func() error { // an exchange is late by then
		for _, d := range w.Redis.Proxies {
			d.BlackHole()
		}
		return nil
	}, nothing)
}

// lates are the delays of answers: within the budget, at it, and beyond it.
var lates = []time.Duration{5 * time.Millisecond, lookupBudget, 50 * time.Millisecond, 500 * time.Millisecond}

const (
	// fewReconnects is what it takes three gateways to find out, however many requests there are: five questions each, for
	// limits and for answers, each of which may cost its connection.
	fewReconnects = 3 * 5 * 2
	// maxReconnects is how many more 1,000 requests may cost while Redis is slow.
	// A client that gives each lookup a context deadline of its own makes 990: it drops the connection of every
	// late answer.
	maxReconnects = 20
)

// slow delays every answer by each of the delays, and counts the connections that requests cost beyond those
// that the gateways make by themselves.
func slow(ctx context.Context, w *Testbed) error {
	count := func() (made int, err error) {
		was := w.Redis.connections()
		err = w.Hold(ctx, w.Span(2500*time.Millisecond, 4*time.Second))
		return w.Redis.connections() - was, err
	}
	for _, d := range lates {
		err := w.Inject(ctx, 0, func() error {
			w.Redis.Set(process.NetworkFault{Delay: d})
			began := w.Load.Sent()
			busy, err := count()
			if err != nil {
				return err
			}
			w.Load.Pause(true)
			defer w.Load.Pause(false)
			sent := w.Load.Sent() - began
			idle, err := count()
			w.Note("%v: %d connections in %d requests, %d without any; modes %v", d, busy, sent, idle, w.modes(ctx))
			maximum := fewReconnects + maxReconnects*sent/1000
			w.Check(busy-idle <= maximum, "%v: %d requests cost %d connections, promised %d", d, sent, busy-idle, maximum)
			return err
		}, func() error { w.Redis.Set(process.NetworkFault{}); return nil })
		if err != nil {
			return err
		}
	}
	return nil
}

func full(ctx context.Context, w *Testbed) error {
	kept := Request{Tenant: Tenants[0], Priority: "normal", Tokens: 12, Prompt: "What is kept before there is no more room?"}
	w.Load.Keep(w.Load.Send(w.Gateways[0], kept))
	if err := w.Hold(ctx, follows); err != nil { // it is written behind the request
		return err
	}
	return w.Inject(ctx, w.outage(), func() error {
		for i := range 64 {
			if err := w.server().do(ctx, "set", fmt.Sprintf("ballast:%d", i), strings.Repeat("x", 64<<10)); err != nil {
				return err
			}
		}
		return commands("config set maxmemory-policy noeviction maxmemory 4mb")(ctx, w) // less than there is
	}, func() error {
		w.Note("modes meanwhile %v", w.modes(ctx))
		for _, g := range w.Gateways[1:] { // they have no copy of it
			o := w.Load.Send(g, kept)
			w.Load.Keep(o)
			said := o.Header.Get("X-Cache")
			w.Check(said == "HIT", "gateway %d: what Redis keeps is not read: X-Cache says %q", g.Number, said)
		}
		return commands("config set maxmemory 0")(ctx, w)
	})
}

// each does something to all, and joins the errors.
func each[T any](all []T, do func(T) error) (err error) {
	for _, v := range all {
		err = errors.Join(err, do(v))
	}
	return err
}

func partitioned(ctx context.Context, w *Testbed) error {
	last := len(w.Gateways) - 1
	modes := func(ofLast string) bool {
		all := w.modes(ctx)
		return all[last] == ofLast && !slices.ContainsFunc(all[:last], func(m string) bool { return m != "shared" })
	}
	err := w.Inject(ctx, w.outage(), func() error {
		w.Redis.Proxies[last].Set(process.NetworkFault{Mute: true})
		w.Note("for itself after %v", round(w.Until(ctx, alone+says, "the replica is for itself", func() bool { return modes("local") })))
		return nil
	}, func() error {
		w.Check(modes("local"), "modes meanwhile %v", w.modes(ctx))
		w.Redis.Proxies[last].Set(process.NetworkFault{})
		return nil
	})
	if err != nil {
		return err
	}
	flaps := 0
	err = w.repeat(ctx, w.Span(2*time.Second, 4*time.Second), 100*time.Millisecond, func() error {
		if !modes("shared") {
			flaps++
		}
		return nil
	})
	w.Check(flaps == 0, "flaps after the end, %d times", flaps)
	return err
}

// splitBrain leads one gateway to a master of its own, gives the sides different
// settings, and leads it back.
func splitBrain(ctx context.Context, w *Testbed) error {
	a := w.server()
	b, err := startServer(ctx, w.dir, "other")
	if b != nil {
		w.Adopt(b.Stop)
	}
	if err != nil {
		return err
	}
	last := len(w.Gateways) - 1
	proxy := w.Redis.Proxies[last]
	lead := func(to *Server) {
		proxy.SetUpstream(to.Addr)
		proxy.Cut()
	}
	members := func(i int) float64 {
		m, _ := w.Gateways[i].Metrics(ctx) // none shares with nobody
		if m.Mode() != "shared" {
			return 0
		}
		return m.Sum("foregate_fleet_replicas")
	}
	err = w.Inject(ctx, w.outage(), func() error {
		if err := errors.Join(a.do(ctx, "hset", settingsKey, "shed.low", "0.80"), b.do(ctx, "hset", settingsKey, "shed.low", "0.70")); err != nil {
			return err
		}
		lead(b)
		w.Note("two fleets after %v", round(w.Until(ctx, 15*time.Second, "each side shares by itself", func() bool {
			return members(last) == 1 && members(0) == float64(last)
		})))
		w.Until(ctx, follows, "each side goes by its own settings", func() bool {
			return w.every(func(g *Gateway) bool {
				all, err := g.inForce(ctx)
				return err == nil && strings.TrimSuffix(all["shed.low"], "0") == map[bool]string{false: "0.8", true: "0.7"}[g.Number == last]
			})
		})
		return w.probedPerSide(ctx)
	}, func() error {
		lead(a)
		return nil
	})
	if err != nil {
		return err
	}
	w.settingSpreads(ctx, a)
	n, err := a.Client.ZCard(ctx, replicasKey).Result()
	w.Check(int(n) == len(w.Gateways), "%d replicas in the set", n)
	return err
}

// probedPerSide has a backend fail while the fleet is two: each side probes by itself, and
// on each one replica alone.
func (tb *Testbed) probedPerSide(ctx context.Context) error {
	sick := tb.Targets[0]
	if tb.Short() {
		return nil
	}
	before := sick.State().Requests[completionsPath]
	err := errors.Join(sick.SetFault(vllmsim.Fault{Status: 500}), tb.Hold(ctx, 8*time.Second))
	probes := sick.State().Requests[completionsPath] - before
	tb.Note("%d probes by two sides in 8s", probes)
	tb.Check(probes <= 2*3, "%d probes by two sides, at most 6 are due", probes) // after 2 s and 4 s more, and one that is under way
	return errors.Join(err, sick.SetFault(vllmsim.Fault{}))
}
