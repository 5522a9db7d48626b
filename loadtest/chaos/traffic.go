package chaos

import (
	"context"
	"math/rand/v2"
	"time"
)

// Traffic is an open loop: requests come at random times (a Poisson process), however many are under way.
type Traffic struct {
	Rate    float64 // requests a second
	Seed    uint64  // of the times
	Maximum int     // requests under way at once; what would be one more is not sent, and [Unreached]
	Next    func(n int) Request
	Take    func(o *Outcome) // is told of each outcome, which is not kept; safe for concurrent use
}

// trafficIdle is for how long a client of [Traffic] keeps a connection that it does not use.
const trafficIdle = 5 * time.Second

// StartTraffic sends requests until [Load.Stop].
func (w *Testbed) StartTraffic(t Traffic) *Load {
	l := w.NewLoad()
	l.client.Transport = transport(t.Maximum, trafficIdle)
	ctx, cancel := context.WithCancel(context.Background())
	l.next, l.take, l.maximum, l.cancel = t.Next, t.Take, int64(t.Maximum), cancel
	random := rand.New(rand.NewPCG(t.Seed, 0)) //nolint:gosec // arrivals are no secret
	l.running.Go(func() {
		l.arrivals(ctx, func() time.Duration { return time.Duration(random.ExpFloat64() / t.Rate * float64(time.Second)) })
	})
	return l
}

// arrivals sends a request after each gap. Who is late sends at once, so that the rate holds on a busy machine.
func (l *Load) arrivals(ctx context.Context, gap func() time.Duration) {
	due := time.NewTimer(0)
	defer due.Stop()
	for n, at := 0, time.Now().Add(gap()); ; n, at = n+1, at.Add(gap()) {
		due.Reset(time.Until(at))
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		}
		l.dispatch(n)
	}
}
