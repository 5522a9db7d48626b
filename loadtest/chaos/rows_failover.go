package chaos

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/foregate/foregate/loadtest/process"
)

// failoverRows are faults of Redis with more than one server.
func failoverRows() []Row {
	const promise = "0 failed; + ≤ 15 ms; shared again ≤ 5 s after the fault; settings follow ≤ 2 s later"
	apart := func(_ context.Context, w *Testbed) error {
		w.Redis.Proxies[0].Set(NetworkFault{Mute: true})
		return nil
	}
	reunited := func(_ context.Context, w *Testbed) error { // what was said meanwhile is lost, and so are the connections
		w.Redis.Proxies[0].Set(NetworkFault{})
		w.Redis.Proxies[0].Cut()
		return nil
	}
	row := func(id, fault string, begin, end step) Row {
		return Row{ID: id, Fault: "Sentinel: " + fault, Promise: promise, Setup: Setup{Redis: Sentinel}, Recover: failedOver, Run: failover(begin, end)}
	}
	killed := row("R4a", "master killed", func(_ context.Context, w *Testbed) error { return w.Redis.Servers[0].Kill() }, start)
	killed.Short = true
	return []Row{
		killed,
		row("R4b", "master frozen", func(_ context.Context, w *Testbed) error { return w.Redis.Servers[0].Freeze() }, thaw),
		row("R4c", "master disconnected from all others", apart, reunited),
		{
			ID: "R5", Fault: "cluster: the node of {fg} frozen, then killed and restarted empty", Promise: "0 failed; + ≤ 15 ms; shared again ≤ 5 s",
			Setup: Setup{Redis: Cluster}, Recover: failedOver, Run: nodeLost,
		},
		{
			ID: "R5a", Fault: "cluster: the slot of {fg} migrated back and forth (MOVED, ASK)", Promise: "0 failed; + ≤ 15 ms; shared again ≤ 5 s", Short: true,
			Setup: Setup{Redis: Cluster}, Recover: failedOver, Run: migrated,
		},
	}
}

const (
	// failedOver is how long after a master's end commands are answered again.
	failedOver = 5 * time.Second
	// follows is how long after that shared state has converged.
	follows = 2 * time.Second
)

// failover makes a fault of the first master, waits until everybody follows the other
// one, and has a setting told there.
func failover(begin, end step) step {
	return func(ctx context.Context, w *Testbed) error {
		r := w.Redis
		err := w.InjectUntil(ctx, 0, func() error { return begin(ctx, w) }, func() error { return nil }, func(ctx context.Context) bool {
			return r.Master(ctx) == 1 && w.heartbeatsReached(ctx, r.Servers[1]) && w.Shared(ctx)
		})
		if err != nil {
			return err
		}
		w.settingSpreads(ctx, r.Servers[1], follows)
		w.Phase(During)
		if err := end(ctx, w); err != nil {
			return err
		}
		if err := w.Hold(ctx, w.outage()); err != nil {
			return err
		}
		// A thawed or rejoined master is told by the sentinels what it is; meanwhile nobody may care.
		w.Until(ctx, 20*time.Second, "the old master is a replica, and the gateways share", func() bool {
			role, err := r.Servers[0].Info(ctx, "role")
			return err == nil && role == "slave" && w.Shared(ctx)
		})
		w.Phase(After)
		return nil
	}
}

// heartbeatsReached reports whether every gateway's heartbeat has reached a server within 1.5 s.
func (w *Testbed) heartbeatsReached(ctx context.Context, s *Server) bool {
	now, err := s.Client.Time(ctx).Result()
	if err != nil {
		return false
	}
	minimum := strconv.FormatInt(now.Add(-alone).UnixMilli(), 10)
	n, err := s.Client.ZCount(ctx, "foregate:{fg}:replicas", minimum, "+inf").Result()
	return err == nil && int(n) == len(w.Gateways)
}

// settingSpreads changes a setting at a server and waits until every gateway has put it
// into force.
func (w *Testbed) settingSpreads(ctx context.Context, s *Server, limit time.Duration) {
	var was []float64
	for _, g := range w.Gateways {
		m, _ := g.Metrics(ctx) // one that does not answer has changed nothing
		was = append(was, m.Sum("foregate_settings_applied_timestamp_seconds"))
	}
	value := fmt.Sprint(1000 + time.Now().UnixMilli()%1000) // unlike the last
	if err := s.Client.HSet(ctx, settingsKey, "speculation.holdback_ms", value).Err(); err != nil {
		w.Fail("HSET %s: %v", settingsKey, err)
		return
	}
	w.due++
	took := w.Until(ctx, limit, "a changed setting is in force everywhere", func() bool {
		for i, g := range w.Gateways {
			if m, err := g.Metrics(ctx); err != nil || m.Sum("foregate_settings_applied_timestamp_seconds") <= was[i] {
				return false
			}
		}
		return true
	})
	w.Note("a setting spreads in %v", round(took))
}

// nodeLost freezes the node that has the keys of {fg}, and then kills it.
func nodeLost(ctx context.Context, w *Testbed) error {
	i := w.Redis.Holder(ctx, "foregate:{fg}:replicas")
	if i < 0 {
		return fmt.Errorf("no node has {fg}")
	}
	s := w.Redis.Servers[i]
	modes := func() { w.Note("modes meanwhile %v", w.Modes(ctx)) }
	if err := w.Inject(ctx, w.outage(), s.Freeze, func() error { modes(); return s.Thaw() }); err != nil {
		return err
	}
	if err := w.Inject(ctx, w.outage(), s.Kill, func() error { modes(); return s.Start(ctx) }); err != nil {
		return err
	}
	w.settingSpreads(ctx, w.Redis.Servers[w.Redis.Holder(ctx, settingsKey)], follows)
	return nil
}

// migrated moves the slot of {fg}, keys and all, while it is used.
func migrated(ctx context.Context, w *Testbed) error {
	times := 2
	if !w.Short() {
		times = 6
	}
	return w.Inject(ctx, w.Span(time.Second, 2*time.Second), func() error {
		for range times {
			if err := w.migrate(ctx); err != nil {
				return err
			}
			if err := w.Hold(ctx, w.Span(time.Second, 2*time.Second)); err != nil {
				return err
			}
		}
		return nil
	}, func() error { return nil })
}

// migrate moves the slot of {fg} to the next node as redis-cli --cluster reshard does:
// importing, migrating, key by key, and then the word to all.
func (w *Testbed) migrate(ctx context.Context) error {
	r := w.Redis
	from := r.Holder(ctx, "foregate:{fg}:replicas")
	if from < 0 {
		return fmt.Errorf("no node has {fg}")
	}
	to := (from + 1) % len(r.Servers)
	slot, err := r.Servers[0].Client.ClusterKeySlot(ctx, "{fg}").Result()
	if err != nil {
		return err
	}
	var ids [2]string
	for i, n := range []int{from, to} {
		if ids[i], err = r.Servers[n].Client.ClusterMyID(ctx).Result(); err != nil {
			return err
		}
	}
	do := func(s *Server, args ...any) error {
		if err := s.Client.Do(ctx, args...).Err(); err != nil {
			return fmt.Errorf("%s: %v: %w", s.name, args, err)
		}
		return nil
	}
	if err := do(r.Servers[to], "cluster", "setslot", slot, "importing", ids[0]); err != nil {
		return err
	}
	if err := do(r.Servers[from], "cluster", "setslot", slot, "migrating", ids[1]); err != nil {
		return err
	}
	for {
		keys, err := r.Servers[from].Client.ClusterGetKeysInSlot(ctx, int(slot), 100).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		for _, key := range keys {
			if err := do(r.Servers[from], "migrate", "127.0.0.1", process.PortNumber(r.Servers[to].Addr), key, 0, 1000, "replace"); err != nil {
				return err
			}
		}
		if err := w.Hold(ctx, 100*time.Millisecond); err != nil { // gateways meet ASK
			return err
		}
	}
	for _, n := range []int{to, from, (from + 2) % len(r.Servers)} {
		if err := do(r.Servers[n], "cluster", "setslot", slot, "node", ids[1]); err != nil {
			return err
		}
	}
	return nil
}
