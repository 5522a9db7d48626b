package chaos

import (
	"context"
	"strings"
	"sync"
	"time"
)

const (
	balanceEvery = 100 * time.Millisecond // a load balancer in a hurry asks this often
	balancePause = 10 * time.Millisecond  // before a refused connection is tried elsewhere
)

// Balance keeps the loads that run away from gateways that are not ready, as a load
// balancer would that asks /readyz every 100 ms, and has them try connections that are
// refused at the next gateway. It ends with the world.
func (w *World) Balance() {
	for _, l := range w.loads {
		l.balance.Store(true)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	for _, g := range w.Gateways {
		asking.Go(func() {
			tick := time.NewTicker(balanceEvery)
			defer tick.Stop()
			for {
				ready := g.Ready(ctx)
				if ctx.Err() == nil {
					g.OutOfTurn.Store(!ready)
				}
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	w.Adopt(func() error {
		cancel()
		asking.Wait()
		return nil
	})
}

// balanced sends a request, as a load balancer would where there is one: a connection
// that is refused, on which nothing was sent, is tried at the next gateway.
func (l *Load) balanced(g *Gateway, n int, r Request) Outcome {
	began := time.Now()
	o := l.send(g, n, r)
	for i := 1; i < len(l.gateways()) && l.balance.Load() && o.Kind == Unreached && strings.Contains(o.Detail, "connection refused"); i++ {
		l.refused.Add(1)
		time.Sleep(balancePause)
		if g = l.turn(n + i); g == nil {
			break
		}
		o = l.send(g, n, r)
		late := o.At.Sub(began)
		o.At, o.First, o.Total = began, o.First+late, o.Total+late
	}
	return o
}

// Elsewhere is how many connections were refused and tried at another gateway.
func (l *Load) Elsewhere() int { return int(l.refused.Load()) }
