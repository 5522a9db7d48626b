package budgets

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redistest"
)

func tokensPer(n int64, per identity.Period) identity.Budget {
	return identity.Budget{Tokens: n, Per: per}
}

func denied(b identity.Budget) identity.Budget {
	b.DenyOnLoss = true
	return b
}

// replica is a ledger in a test.
type replica struct {
	*Ledger
	stop func() // ends Run
}

// join makes a replica of n and runs it; o nil is alone.
func join(t testing.TB, o *redis.Options, n int, adjust ...func(*Options)) *replica {
	t.Helper()
	own := Options{Replicas: func() int { return n }}
	if o != nil {
		own.Redis = redistest.Client(t, o)
	}
	for _, a := range adjust {
		a(&own)
	}
	r := &replica{Ledger: New(own)}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	r.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(r.stop)
	return r
}

// patient has a replica wait for a busy machine.
func patient(o *Options) { o.Budget = func() time.Duration { return 10 * time.Second } }

// patientOptions are those of a client that waits for a busy machine.
func patientOptions(addr string) *redis.Options {
	o := redistest.OnRequests(addr)
	o.ReadTimeout, o.PoolTimeout = 10*time.Second, 10*time.Second
	return o
}

// settle lets a request in and settles it at once; false if it was refused.
func (r *replica) settle(t testing.TB, a Request, tokens int) bool {
	t.Helper()
	g, err := r.Reserve(t.Context(), a)
	if err != nil {
		if !errors.Is(err, ErrExhausted) {
			t.Fatalf("a request failed: %v", err)
		}
		return false
	}
	g.Settle(tokens, 0)
	return true
}

// refused is the refusal of a request.
func (r *replica) refused(t testing.TB, a Request) *Error {
	t.Helper()
	g, err := r.Reserve(t.Context(), a)
	if err == nil {
		g.Cancel()
		t.Fatal("let in")
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("no *Error: %v", err)
	}
	return e
}

// reserve lets a request in.
func (r *replica) reserve(t testing.TB, a Request) *Reservation {
	t.Helper()
	g, err := r.Reserve(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (r *replica) results(kind string) int {
	return int(testutil.ToFloat64(r.metrics.redis.WithLabelValues(kind)))
}

// used is what a budget of a tenant has used, as this replica and Redis know it.
func (r *replica) used(t testing.TB, tenant string, b identity.Budget) State {
	t.Helper()
	return r.States(t.Context(), []Query{{tenant, []identity.Budget{b}}})[0][0]
}

// filled has a new Redis believed at once, as one that replicas have filled.
func filled(t testing.TB, addr string) {
	t.Helper()
	c := redistest.Client(t, redistest.Background(addr))
	if err := c.HSet(t.Context(), keyBeats, "beat", 1, "since", 0).Err(); err != nil {
		t.Fatal(err)
	}
}
