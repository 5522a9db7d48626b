package chaos

import (
	"context"
	"strings"
	"time"
)

// networkRow has one replica alone lose its way to the backends.
func networkRow() Row {
	var proxies []*Proxy
	return Row{
		ID: "S8", Fault: "one replica's connections to all backends are reset, no other's", Added: -1, Recover: probedLater,
		Promise:   "no other replica opens a breaker, 0 failed there; the replica has recovered ≤ 18 s after the end",
		Tolerated: []string{"http_502", "http_503", "http_504", ErrorEvent, CutSilent, Unreached},
		Setup: Setup{
			Drafts: -1, Targets: 3,
			Prepare: func(w *Testbed) error {
				proxies = nil
				for _, s := range w.Targets {
					d, err := NewProxy(strings.TrimPrefix(s.URL(), "http://"))
					if err != nil {
						return err
					}
					w.Adopt(func() error { d.Close(); return nil })
					proxies = append(proxies, d)
				}
				return nil
			},
			Config: func(_ int, file map[string]any) {
				var urls []string
				for _, d := range proxies {
					urls = append(urls, "http://"+d.Addr)
				}
				file["pools"] = map[string]any{TargetPool: map[string]any{"model": RouteModel, "backends": urls}}
			},
		},
		Run: func(ctx context.Context, w *Testbed) error { return w.partedAlone(ctx, proxies) },
	}
}

func (w *Testbed) partedAlone(ctx context.Context, proxies []*Proxy) error {
	last := len(w.Gateways) - 1
	sick := w.Gateways[last]
	part := func(pid int) {
		for _, d := range proxies {
			d.CutOff(pid)
		}
	}
	open := make([]int, len(w.Gateways))
	look := func() {
		for i, g := range w.Gateways {
			open[i] = max(open[i], openBreakers(ctx, g))
		}
	}
	err := w.InjectUntil(ctx, 0, func() error {
		part(sick.PID())
		for end := time.Now().Add(w.Span(4*time.Second, 15*time.Second)); time.Now().Before(end); {
			look()
			if err := w.Hold(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	}, func() error {
		part(0)
		return nil
	}, func(ctx context.Context) bool {
		look()
		return sick.Ready(ctx) && w.Closed(ctx) && w.Load.Send(sick, usualLoad(0)).Kind == Answered
	})
	if err != nil {
		return err
	}
	refused := 0
	for _, o := range w.Load.Outcomes() {
		if o.Gateway == last && o.Kind != Answered {
			refused++
		}
	}
	w.Note("breakers open at once, at most, by gateway: %v; %d requests failed at the one", open, refused)
	for i, n := range open[:last] {
		if n > 0 {
			w.Fail("gateway %d has opened %d breakers", i, n)
		}
	}
	if refused == 0 {
		w.Fail("its network was not broken")
	}
	w.only(last)
	return nil
}
