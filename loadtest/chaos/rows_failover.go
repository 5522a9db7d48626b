package chaos

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/foregate/foregate/loadtest/process"
)

// failoverRows are faults of Redis with more than one server.
func failoverRows() []Row {
	const promise = "0 failed; + ≤ 15 ms; shared again ≤ 5 s after the fault; settings follow ≤ 2 s later"
	apart := func(_ context.Context, w *Testbed) error {
		w.Redis.Proxies[0].Set(process.NetworkFault{Mute: true})
		return nil
	}
	reunited := func(_ context.Context, w *Testbed) error { // what was said meanwhile is lost, and so are the connections
		w.Redis.Proxies[0].Set(process.NetworkFault{})
		w.Redis.Proxies[0].Cut()
		return nil
	}
	row := func(id, fault string, short bool, begin, end step) Row {
		return Row{ID: id, Fault: "Sentinel: " + fault, Promise: promise, Short: short, Setup: Setup{Redis: Sentinel}, Recover: failedOver, Run: failover(begin, end)}
	}
	return []Row{
		row("R4a", "master killed", true, kill, start),
		row("R4b", "master frozen", false, freeze, thaw),
		row("R4c", "master disconnected from all others", false, apart, reunited),
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
		err := w.InjectUntil(ctx, 0, func() error { return begin(ctx, w) }, nothing, func(ctx context.Context) bool {
			return r.master(ctx) == 1 && w.heartbeatsReached(ctx, r.Servers[1]) && w.Shared(ctx)
		})
		if err != nil {
			return err
		}
		w.settingSpreads(ctx, r.Servers[1])
		w.Phase(During)
		if err := errors.Join(end(ctx, w), w.Hold(ctx, w.outage())); err != nil {
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
func (tb *Testbed) heartbeatsReached(ctx context.Context, s *Server) bool {
	now, err := s.Client.Time(ctx).Result()
	if err != nil {
		return false
	}
	minimum := strconv.FormatInt(now.Add(-alone).UnixMilli(), 10)
	n, err := s.Client.ZCount(ctx, replicasKey, minimum, "+inf").Result()
	return err == nil && int(n) == len(tb.Gateways)
}

// settingSpreads changes a setting at a server and waits until every gateway has put it
// into force.
func (tb *Testbed) settingSpreads(ctx context.Context, s *Server) {
	applied := func(g *Gateway) float64 { return g.sum(ctx, "foregate_settings_applied_timestamp_seconds") }
	was := map[*Gateway]float64{}
	for _, g := range tb.Gateways {
		was[g] = applied(g)
	}
	if err := s.do(ctx, "hset", settingsKey, "speculation.holdback_ms", 1000+time.Now().UnixMilli()%1000); err != nil { // unlike the last
		tb.Fail("%v", err)
		return
	}
	tb.due++
	tb.Note("a setting spreads in %v", round(tb.Until(ctx, follows, "a changed setting is in force everywhere", func() bool {
		return tb.every(func(g *Gateway) bool { return applied(g) > was[g] })
	})))
}

// nodeLost freezes the node that has the keys of {fg}, and then kills it.
func nodeLost(ctx context.Context, w *Testbed) error {
	i, err := w.Redis.holder(ctx, replicasKey)
	if err != nil {
		return err
	}
	s := w.Redis.Servers[i]
	modes := func() { w.Note("modes meanwhile %v", w.modes(ctx)) }
	if err := w.Inject(ctx, w.outage(), s.Freeze, func() error { modes(); return s.Thaw() }); err != nil {
		return err
	}
	if err := w.Inject(ctx, w.outage(), func() error { s.Kill(); return nil }, func() error { modes(); return s.Start(ctx) }); err != nil {
		return err
	}
	i, err = w.Redis.holder(ctx, settingsKey)
	if err == nil {
		w.settingSpreads(ctx, w.Redis.Servers[i])
	}
	return err
}

// migrated moves the slot of {fg}, keys and all, while it is used.
func migrated(ctx context.Context, w *Testbed) error {
	times, rest := 6, w.Span(time.Second, 2*time.Second)
	if w.Short() {
		times = 2
	}
	return w.Inject(ctx, rest, func() error {
		for range times {
			if err := errors.Join(w.Redis.migrate(ctx), w.Hold(ctx, rest)); err != nil {
				return err
			}
		}
		return nil
	}, nothing)
}

// migrate moves the slot of {fg} to the next node as redis-cli --cluster reshard does:
// importing, migrating, key by key, and then the word to all.
func (r *Redis) migrate(ctx context.Context) error {
	i, err := r.holder(ctx, replicasKey)
	if err != nil {
		return err
	}
	from, to, third := r.Servers[i], r.Servers[(i+1)%3], r.Servers[(i+2)%3]
	slot, err := from.Client.ClusterKeySlot(ctx, "{fg}").Result()
	here, err1 := from.Client.ClusterMyID(ctx).Result()
	there, err2 := to.Client.ClusterMyID(ctx).Result()
	err = errors.Join(err, err1, err2, to.do(ctx, "cluster", "setslot", slot, "importing", here), from.do(ctx, "cluster", "setslot", slot, "migrating", there))
	for err == nil {
		keys, failed := from.Client.ClusterGetKeysInSlot(ctx, int(slot), 100).Result()
		if len(keys) == 0 {
			err = failed
			break
		}
		for _, key := range keys {
			err = errors.Join(err, from.do(ctx, "migrate", "127.0.0.1", process.PortNumber(to.Addr), key, 0, 1000, "replace"))
		}
		time.Sleep(100 * time.Millisecond) // gateways meet ASK
	}
	return errors.Join(err, each([]*Server{to, from, third}, func(s *Server) error { return s.do(ctx, "cluster", "setslot", slot, "node", there) }))
}
