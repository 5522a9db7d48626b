package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

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
		w.Redis.Proxies[last].Set(NetworkFault{Mute: true})
		took := w.Until(ctx, alone+says, "the replica is for itself", func() bool { return modes("local", "shared") })
		w.Note("for itself after %v", round(took))
		return nil
	}, func() error {
		if !modes("local", "shared") {
			w.Fail("modes meanwhile %v", w.Modes(ctx))
		}
		w.Redis.Proxies[last].Set(NetworkFault{})
		return nil
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

// splitBrain leads one gateway to a master of its own, gives the sides different
// settings, and leads it back.
func splitBrain(ctx context.Context, w *Testbed) error {
	a := w.Redis.Servers[0]
	b, err := NewServer(ctx, w.Dir(), "other")
	if b != nil {
		w.Adopt(b.Stop)
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
	before := sick.State().Requests[completionsPath]
	if err := w.Hold(ctx, 8*time.Second); err != nil {
		return err
	}
	probes := sick.State().Requests[completionsPath] - before
	w.Note("%d probes by two sides in 8s", probes)
	if probes > 2*3 { // after 2 s and 4 s more, and one that is under way
		w.Fail("%d probes by two sides, at most 6 are due", probes)
	}
	return sick.SetFault(vllmsim.Fault{})
}
