package limits

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
)

// flushInterval is that of package lookup.
const flushInterval = 250 * time.Millisecond

// replica is a limiter in a test, with what its wire does.
type replica struct {
	*Limiter
	registry      *prometheus.Registry
	dials, writes atomic.Int64
}

// client dials with dial, or as the options say.
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

// join makes a replica of n; o nil is alone.
func join(t testing.TB, o *redis.Options, n int) *replica {
	t.Helper()
	r := &replica{registry: prometheus.NewRegistry()}
	own := Options{Replicas: func() int { return n }, Registerer: r.registry}
	if o != nil {
		own.Redis = r.client(t, o)
	}
	r.Limiter = New(own)
	return r
}

// patient gives a replica a budget that a busy machine keeps: what is late would be counted
// locally. It is called before run.
func (r *replica) patient() { r.budget = func() time.Duration { return time.Second } }

// run runs a replica until stop, or the test's end.
func (r *replica) run(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// ask is a request of one tenant, settled at once as estimated.
func (r *replica) ask(t testing.TB, a Request) bool {
	t.Helper()
	g, err := r.Reserve(t.Context(), a)
	if err != nil {
		if !errors.Is(err, ErrLimited) {
			t.Fatalf("a request failed: %v", err)
		}
		return false
	}
	g.Settle(-1)
	return true
}

func (r *replica) results(kind string) int {
	return int(testutil.ToFloat64(r.metrics.redis.WithLabelValues(kind)))
}

func refuse(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
