package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// partRows are faults that meet some of the connections, or some of the gateways.
func partRows() []Row {
	return []Row{
		{
			ID: "R13", Fault: "one replica cut off from Redis", Promise: "0 failed; it is at level local, the others share state; no flapping afterwards",
			Short: true, Recover: backAgain, Run: partitioned,
		},
		{
			ID: "R14", Fault: "pub/sub connections alone are black holes", Promise: "0 failed; subscribed again ≤ 2 s; the replicas keep sharing state",
			Recover: backAgain, Run: deaf,
		},
		{
			ID: "R15", Fault: "split brain: one replica at another master", Promise: "0 failed; settings per side; one side again ≤ 30 s",
			Recover: 30 * time.Second, Run: splitBrain,
		},
	}
}

func partitioned(ctx context.Context, w *Testbed) error {
	last := len(w.Gateways) - 1
	modes := func(want string, rest string) bool {
		for i, m := range w.Modes(ctx) {
			if i == last && m != want || i != last && m != rest {
				return false
			}
		}
		return true
	}
	err := w.Inject(ctx, w.outage(), func() error {
		if err := w.Redis.Proxies[last].Set(NetworkFault{Mute: true}); err != nil {
			return err
		}
		took := w.Until(ctx, alone+says, "the replica is for itself", func() bool { return modes("local", "shared") })
		w.Note("for itself after %v", round(took))
		return nil
	}, func() error {
		if !modes("local", "shared") {
			w.Fail("modes meanwhile %v", w.Modes(ctx))
		}
		return w.Redis.Proxies[last].Set(NetworkFault{})
	})
	for end := time.Now().Add(w.Span(2*time.Second, 4*time.Second)); err == nil && time.Now().Before(end); {
		if !modes("shared", "shared") {
			w.Fail("flaps after the end: modes %v", w.Modes(ctx))
			break
		}
		err = w.Hold(ctx, 100*time.Millisecond)
	}
	return err
}

// subscribers are the connections that wait for messages, by id, with their addresses.
func subscribers(ctx context.Context, s *Server) (map[string]string, error) {
	list, err := s.Client.Do(ctx, "client", "list", "type", "pubsub").Text()
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range strings.Lines(list) {
		var id, addr string
		for _, f := range strings.Fields(line) {
			if v, ok := strings.CutPrefix(f, "id="); ok {
				id = v
			}
			if v, ok := strings.CutPrefix(f, "addr="); ok {
				addr = v
			}
		}
		out[id] = addr
	}
	return out, nil
}

// deaf makes black holes of the connections that wait for messages, as often as time
// allows.
func deaf(ctx context.Context, w *Testbed) error {
	s := w.Redis.Servers[0]
	times, worst := 0, time.Duration(0)
	for end := time.Now().Add(w.outage()); times == 0 || time.Now().Before(end); times++ {
		was, err := subscribers(ctx, s)
		if err != nil {
			return err
		}
		var addrs []string
		for _, a := range was {
			addrs = append(addrs, a)
		}
		n, alone := 0, false
		err = w.InjectUntil(ctx, 0, func() error {
			for _, d := range w.Redis.Proxies {
				n += d.BlackHoleFrom(addrs...)
			}
			return nil
		}, func() error { return nil }, func(ctx context.Context) bool {
			is, err := subscribers(ctx, s)
			anew := 0
			for id := range is {
				if was[id] == "" {
					anew++
				}
			}
			alone = alone || !w.Shared(ctx)
			return err == nil && anew >= n
		})
		if err != nil {
			return err
		}
		if alone {
			w.Fail("the replicas do not go on sharing")
		}
		if n == 0 {
			w.Fail("no gateway subscribes to anything")
			break
		}
		worst = max(worst, w.recovered)
	}
	w.Note("%d times, %v at most", times, round(worst))
	return nil
}

// splitBrain leads one gateway to a master of its own, gives the sides different
// settings, and leads it back.
func splitBrain(ctx context.Context, w *Testbed) error {
	a := w.Redis.Servers[0]
	b, err := NewServer(ctx, w.Dir(), "other")
	if b != nil {
		w.Adopt(b.stop)
	}
	if err != nil {
		return err
	}
	last := len(w.Gateways) - 1
	proxy := w.Redis.Proxies[last]
	members := func(i int) float64 {
		m, _ := w.Gateways[i].Metrics(ctx) // none shares with nobody
		n, _ := m.Value("foregate_fleet_replicas")
		if m.Mode() != "shared" {
			return 0
		}
		return n
	}
	err = w.Inject(ctx, w.outage(), func() error {
		for s, value := range map[*Server]string{a: "0.80", b: "0.70"} {
			if err := s.Client.HSet(ctx, settingsKey, "shed.low", value).Err(); err != nil {
				return err
			}
		}
		proxy.SetUpstream(b.Addr)
		proxy.Cut()
		took := w.Until(ctx, 15*time.Second, "each side shares by itself", func() bool {
			return members(last) == 1 && members(0) == float64(last)
		})
		w.Note("two fleets after %v", round(took))
		w.Until(ctx, follows, "each side goes by its own settings", func() bool {
			for i, g := range w.Gateways {
				want := map[bool]string{false: "0.8", true: "0.7"}[i == last]
				if all, err := g.inForce(ctx); err != nil || strings.TrimSuffix(all["shed.low"], "0") != want {
					return false
				}
			}
			return true
		})
		if w.Short() {
			return nil
		}
		return w.probedPerSide(ctx)
	}, func() error {
		proxy.SetUpstream(a.Addr)
		proxy.Cut()
		return nil
	})
	if err != nil {
		return err
	}
	w.settingSpreads(ctx, a, follows)
	if n, err := a.Client.ZCard(ctx, "foregate:{fg}:replicas").Result(); err != nil || int(n) != len(w.Gateways) {
		return fmt.Errorf("%d replicas in the set: %w", n, err)
	}
	return nil
}

// probedPerSide has a backend fail while the fleet is two: each side probes by itself, and
// on each one replica alone.
func (w *Testbed) probedPerSide(ctx context.Context) error {
	sick := w.Targets[0]
	if err := sick.SetFault(vllmsim.Fault{Status: 500}); err != nil {
		return err
	}
	const probed = "/v1/completions"
	before := sick.State().Requests[probed]
	if err := w.Hold(ctx, 8*time.Second); err != nil {
		return err
	}
	probes := sick.State().Requests[probed] - before
	w.Note("%d probes by two sides in 8s", probes)
	if probes > 2*3 { // after 2 s and 4 s more, and one that is under way
		w.Fail("%d probes by two sides, at most 6 are due", probes)
	}
	return sick.SetFault(vllmsim.Fault{})
}
