package ledger

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// replica is a ledger in a test, with what its wire does.
type replica struct {
	*Ledger
	dials, writes atomic.Int64
	stop          func() // ends its loops
}

// join makes a replica of n, which does not run; o nil is alone.
func join(t testing.TB, o *redis.Options, n int, adjust ...func(*Options)) *replica {
	t.Helper()
	r := &replica{stop: func() {}}
	own := Options{Replicas: func() int { return n }}
	if o != nil {
		own.Redis = r.client(t, o)
	}
	for _, a := range adjust {
		a(&own)
	}
	r.Ledger = New(own)
	return r
}

// client dials with o's dialer, and counts.
func (r *replica) client(t testing.TB, o *redis.Options) *redis.Client {
	inner := o.Dialer
	if inner == nil {
		inner = (&net.Dialer{}).DialContext
	}
	own := *o
	own.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := inner(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		r.dials.Add(1)
		return &counted{c, r}, nil
	}
	c := redis.NewClient(&own)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// counted counts writes: each is a round trip, as long as commands are short.
type counted struct {
	net.Conn
	r *replica
}

func (c *counted) Write(b []byte) (int, error) {
	c.r.writes.Add(1)
	return c.Conn.Write(b)
}

// run runs a replica until stop, or the test's end.
func (r *replica) run(t testing.TB) *replica {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, loop := range []func(context.Context) error{r.Run, r.RunUsage} {
		wg.Go(func() {
			if err := loop(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	r.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(r.stop)
	return r
}

// patient has a replica wait for a busy machine: what is late would be counted locally.
func patient(o *Options) { o.Budget = func() time.Duration { return 10 * time.Second } }

// patientOptions are those of a client that waits for a busy machine.
func patientOptions(addr string) *redis.Options {
	o := redistest.OnRequests(addr)
	o.ReadTimeout, o.PoolTimeout = 10*time.Second, 10*time.Second
	return o
}

// gone is a Redis that refuses connections.
func gone() *redis.Options {
	o := redistest.OnRequests("127.0.0.1:1")
	o.Dialer = func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
	return o
}

// bubble runs a test in virtual time, with n replicas at one miniredis that run, and the network between them.
func bubble(t *testing.T, n int, test func(t *testing.T, fleet []*replica, m *miniredis.Miniredis, cut *redistest.Network)) {
	t.Helper()
	skipRaced(t)
	synctest.Test(t, func(t *testing.T) {
		m, o := redistest.Embedded(t, redistest.OnRequests)
		cut := &redistest.Network{}
		o.Dialer = cut.Dial(o.Dialer)
		var fleet []*replica
		for range n {
			fleet = append(fleet, join(t, o, n).run(t))
		}
		synctest.Wait()
		test(t, fleet, m, cut)
		for _, r := range fleet {
			r.stop()
			_ = r.redis.Close()
		}
		m.Close()
		synctest.Wait()
	})
}

// places runs a test with a replica that shares and with one that is alone, in virtual time.
func places(t *testing.T, test func(t *testing.T, r *replica)) {
	t.Run("shared", func(t *testing.T) {
		bubble(t, 3, func(t *testing.T, fleet []*replica, _ *miniredis.Miniredis, _ *redistest.Network) { test(t, fleet[0]) })
	})
	t.Run("alone", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, join(t, nil, 1)) }) })
}

// skipRaced leaves out what takes minutes of virtual time under the race detector, where the runtime has died in them
// (synctest's timers); make baselines runs them without it.
func skipRaced(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("minutes of virtual time; make baselines runs it without the race detector")
	}
}

// enter is a request that must be let in.
func (r *replica) enter(t testing.TB, a Request) *Reservation {
	t.Helper()
	g, err := r.Reserve(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// refused is a request that a limit must refuse.
func (r *replica) refused(t testing.TB, a Request) *LimitError {
	t.Helper()
	_, err := r.Reserve(t.Context(), a)
	e, ok := errors.AsType[*LimitError](err)
	if !ok || !errors.Is(err, ErrLimited) {
		t.Fatalf("no refusal by a limit: %v", err)
	}
	return e
}

// exhausted is a request that a budget must refuse.
func (r *replica) exhausted(t testing.TB, a Request) *BudgetError {
	t.Helper()
	_, err := r.Reserve(t.Context(), a)
	e, ok := errors.AsType[*BudgetError](err)
	if !ok || !errors.Is(err, ErrExhausted) {
		t.Fatalf("no refusal by a budget: %v", err)
	}
	return e
}

// settle asks, and settles at once if it is let in: less than 0 as estimated.
func (r *replica) settle(t testing.TB, a Request, tokens int) bool {
	t.Helper()
	g, err := r.Reserve(t.Context(), a)
	if err != nil {
		if !errors.Is(err, ErrLimited) && !errors.Is(err, ErrExhausted) {
			t.Errorf("a request failed: %v", err)
		}
		return false
	}
	g.Settle(tokens, 0)
	return true
}

// ask is a request of one tenant, settled at once as estimated.
func (r *replica) ask(t testing.TB, a Request) bool { t.Helper(); return r.settle(t, a, -1) }

// limitResults and budgetResults are how often calls ended in a way.
func (r *replica) limitResults(kind string) int {
	return int(testutil.ToFloat64(r.metrics.limits.WithLabelValues(kind)))
}

func (r *replica) budgetResults(kind string) int {
	return int(testutil.ToFloat64(r.metrics.budgets.WithLabelValues(kind)))
}

func tokensPer(n int64, per identity.Period) identity.Budget {
	return identity.Budget{Tokens: n, Per: per}
}

func denied(b identity.Budget) identity.Budget {
	b.DenyOnLoss = true
	return b
}

// used is what a budget of a tenant has used, as this replica and Redis know it.
func (r *replica) used(t testing.TB, tenant string, b identity.Budget) BudgetState {
	t.Helper()
	return r.States(t.Context(), []BudgetQuery{{tenant, []identity.Budget{b}}})[0][0]
}
