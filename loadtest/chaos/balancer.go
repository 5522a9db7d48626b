package chaos

import (
	"context"
	"sync"
	"time"
)

// balanceEvery is how often a load balancer in a hurry asks.
const balanceEvery = 100 * time.Millisecond

// Checks say how a load balancer looks after gateways. It asks nothing but /readyz, and
// sends nothing a second time but what met a refused connection: there nothing was sent.
type Checks struct {
	Every time.Duration // between two GET /readyz at a gateway
	Falls int           // checks in a row that fail before a gateway is out of turn
	Rises int           // checks in a row that succeed before it is in turn again
	Tries int           // other gateways that a refused connection is tried at
}

// rotation is what a load balancer thinks of one gateway; it begins in turn.
type rotation struct {
	checks  Checks
	out     bool
	against int       // checks in a row that speak against what is thought
	failing time.Time // the first check that failed since the last time in turn; zero: none
}

// recordCheck takes one check up. window is how long it was from the first check that failed, when
// this one brings the gateway back in turn, else 0.
func (r *rotation) recordCheck(ok bool, at time.Time) (in bool, window time.Duration) {
	switch {
	case ok == !r.out:
		r.against = 0
		if !r.out {
			r.failing = time.Time{}
		}
		return !r.out, 0
	case !ok && r.failing.IsZero():
		r.failing = at
	}
	r.against++
	if !r.out && r.against >= r.checks.Falls {
		r.out, r.against = true, 0
	} else if r.out && r.against >= r.checks.Rises {
		window = at.Sub(r.failing)
		r.out, r.against, r.failing = false, 0, time.Time{}
	}
	return !r.out, window
}

// Rotations is what a load balancer has seen of the gateways.
type Rotations struct {
	mu      sync.Mutex
	out     map[int]bool
	fewest  int           // gateways in turn at a moment
	longest time.Duration // from a first check that failed until its gateway was in turn again
}

// note takes up what came of a check at one of n gateways.
func (r *Rotations) note(gateway, n int, in bool, window time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out[gateway] = true; in {
		delete(r.out, gateway)
	}
	r.fewest, r.longest = min(r.fewest, n-len(r.out)), max(r.longest, window)
}

func (r *Rotations) seen() (fewest int, longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fewest, r.longest
}

// balance keeps the loads away from gateways that are not ready, as a load balancer would
// that asks /readyz every 100 ms and believes the first answer, and has them try connections
// that are refused at all other gateways.
func (tb *Testbed) balance() {
	tb.BalanceBy(Checks{Every: balanceEvery, Falls: 1, Rises: 1, Tries: len(tb.Gateways) - 1})
}

// BalanceBy is a load balancer with checks as a cloud's has them. It ends with the world.
func (tb *Testbed) BalanceBy(c Checks) *Rotations {
	tb.tries = c.Tries
	for _, l := range tb.loads {
		l.tries.Store(int32(c.Tries)) //nolint:gosec // a handful
	}
	seen := &Rotations{out: map[int]bool{}, fewest: len(tb.Gateways)}
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	for _, g := range tb.Gateways {
		asking.Go(func() { tb.lookAfter(ctx, g, c, seen) })
	}
	tb.Adopt(func() error {
		cancel()
		asking.Wait()
		return nil
	})
	return seen
}

// lookAfter checks one gateway until ctx ends.
func (tb *Testbed) lookAfter(ctx context.Context, g *Gateway, c Checks, seen *Rotations) {
	r := rotation{checks: c}
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	for {
		ready := g.IsReady(ctx)
		if ctx.Err() == nil {
			in, window := r.recordCheck(ready, time.Now())
			g.OutOfTurn.Store(!in)
			seen.note(g.Number, len(tb.Gateways), in, window)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
