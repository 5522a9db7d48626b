package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Phases of a row.
const (
	Before = "before" // nothing is wrong
	During = "during" // from the fault's beginning until all is as before
	After  = "after"
)

const (
	clientPatience = 20 * time.Second // with one request
	maxInFlight    = 512              // requests of a load at once; more are not sent, and counted
	patience       = 10 * time.Second // for what comes at once
)

// Traffic says what a load sends.
type Traffic struct {
	Rate    float64             // requests a second, evenly spaced; 0: only what [Load.Send] sends
	Random  uint64              // the seed of random times instead (a Poisson process); 0 is none
	Maximum int                 // requests under way at once; what would be one more is not sent, and [Unreached]. 0 is 512
	Next    func(n int) Request // nil: streams and JSON, three priorities, two tenants
	Take    func(o *Outcome)    // is told of each outcome, which is not kept; safe for concurrent use. nil: all are kept
}

// Load is an open loop: it sends requests, whatever is outstanding, to the gateways in
// turn, and keeps what became of each. Start it with [Testbed.StartLoad].
type Load struct {
	*Client
	Traffic
	gateways func() []*Gateway
	phase    atomic.Pointer[string]
	paused   atomic.Bool
	tries    atomic.Int32 // other gateways that what is refused is tried at, see Testbed.Balance
	refused  atomic.Int64 // connections that were
	inFlight atomic.Int64
	sent     atomic.Int64

	mu       sync.Mutex
	outcomes []Outcome

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// usualLoad is streams and JSON by turns, three priorities, two tenants.
func usualLoad(n int) Request {
	return Request{Tenant: Tenants[n%2], Priority: priorities[n/3%3], Stream: n/2%2 == 0, Tokens: 12}
}

var priorities = [...]string{"high", "normal", "low"}

// StartLoad sends until [Load.Stop]. The world's own load is tb.Load; a row may
// have more. No load repeats a request of another load or of its own, unless its requests have a Prompt: only those can be
// answered from the cache.
func (tb *Testbed) StartLoad(t Traffic) *Load {
	if t.Next == nil {
		t.Next = usualLoad
	}
	if t.Maximum == 0 {
		t.Maximum = maxInFlight
	}
	tb.started++
	l := &Load{Client: NewClient(fmt.Sprint(tb.started), clientPatience, t.Maximum, 5*time.Second), Traffic: t, gateways: func() []*Gateway { return tb.Gateways }}
	l.tries.Store(int32(tb.tries)) //nolint:gosec // a handful
	l.Phase(Before)
	tb.loads = append(tb.loads, l)
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	if t.Rate > 0 {
		l.running.Go(func() { l.run(ctx) })
	}
	return l
}

// gap is the time from one request to the next.
func (t *Traffic) gap() func() time.Duration {
	mean := float64(time.Second) / t.Rate
	if t.Random == 0 {
		return func() time.Duration { return time.Duration(mean) }
	}
	random := rand.New(rand.NewPCG(t.Random, 0)) //nolint:gosec // arrivals are no secret
	return func() time.Duration { return time.Duration(random.ExpFloat64() * mean) }
}

// run sends a request after each gap. Who is late sends at once, so that the rate holds on a busy machine.
func (l *Load) run(ctx context.Context) {
	due := time.NewTimer(0)
	defer due.Stop()
	gap := l.gap()
	for n, at := 0, time.Now().Add(gap()); ; n, at = n+1, at.Add(gap()) {
		due.Reset(time.Until(at))
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		}
		if !l.paused.Load() {
			l.dispatch(n)
		}
	}
}

// Phase marks what is sent from here on.
func (l *Load) Phase(name string) { l.phase.Store(&name) }

// Pause keeps the load from sending, or ends that.
func (l *Load) Pause(paused bool) { l.paused.Store(paused) }

// Sent is how many requests were sent so far.
func (l *Load) Sent() int { return int(l.sent.Load()) }

// Stop sends no more, waits for what is under way and closes the connections.
func (l *Load) Stop() {
	l.cancel()
	l.running.Wait()
	l.Close()
}

// dispatch sends request n and does not wait for its answer.
func (l *Load) dispatch(n int) {
	g := l.turn(n)
	if l.inFlight.Add(1) > int64(l.Maximum) || g == nil {
		l.inFlight.Add(-1)
		l.Keep(Outcome{Kind: Unreached, Detail: "the client is full, or no gateway takes requests", Phase: *l.phase.Load(), At: time.Now()})
		return
	}
	l.running.Go(func() { // the wait for it is what Stop does
		defer l.inFlight.Add(-1)
		l.Keep(l.balanced(g, n, l.Next(n)))
	})
}

// turn is the first gateway from number n on that a load balancer would ask; nil: there is none.
func (l *Load) turn(n int) *Gateway {
	all := l.gateways()
	for i := range all {
		if g := all[(n+i)%len(all)]; !g.OutOfTurn.Load() {
			return g
		}
	}
	return nil
}

// balancePause is the time before a refused connection is tried elsewhere.
const balancePause = 10 * time.Millisecond

// balanced sends a request, as a load balancer would where there is one: a connection
// that is refused, on which nothing was sent, is tried at the next gateway.
func (l *Load) balanced(g *Gateway, n int, r Request) Outcome {
	began := time.Now()
	o := l.send(g, n, r)
	for range l.tries.Load() {
		if o.Kind != Unreached || !strings.Contains(o.Detail, "connection refused") {
			break
		}
		l.refused.Add(1)
		time.Sleep(balancePause)
		next := l.turn(slices.Index(l.gateways(), g) + 1)
		if next == nil || next == g {
			break
		}
		g = next
		o = l.send(g, n, r)
		late := o.At.Sub(began)
		o.At, o.First, o.Total = began, o.First+late, o.Total+late
	}
	return o
}

// Elsewhere is how many connections were refused and tried at another gateway.
func (l *Load) Elsewhere() int { return int(l.refused.Load()) }

// Keep puts an outcome among the load's.
func (l *Load) Keep(o Outcome) {
	l.sent.Add(1)
	if l.Take != nil {
		l.Take(&o)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes = append(l.outcomes, o)
}

// Outcomes are those of the phases named, or all; of finished requests only.
func (l *Load) Outcomes(phases ...string) (out []Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.outcomes {
		if len(phases) == 0 || slices.Contains(phases, o.Phase) {
			out = append(out, o)
		}
	}
	return out
}

// Send sends one request to a gateway, beside what the load sends, and tells what became
// of it; it is not among the load's outcomes.
func (l *Load) Send(g *Gateway, r Request) Outcome { return l.send(g, int(time.Now().UnixNano()), r) }

func (l *Load) send(g *Gateway, n int, r Request) Outcome {
	phase := *l.phase.Load()
	o := l.Do(context.Background(), g.Base, n, &r) // the client has a time limit
	o.Phase, o.Gateway = phase, g.Number
	return o
}
