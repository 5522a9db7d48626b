package fleet

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// recordingPool is a pool that remembers what it was told.
type recordingPool struct {
	name string

	mu           sync.Mutex
	readings     map[string]pressure.Reading
	readingCalls int
	placed       []prefix.Placement
	drained      map[string]string
	drainCalls   int // times of drains
}

func (p *recordingPool) Name() string { return p.name }

func (p *recordingPool) ReceiveReading(backend string, r pressure.Reading) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readingCalls++
	if p.readings == nil {
		p.readings = map[string]pressure.Reading{}
	}
	if r.At.After(p.readings[backend].At) { // as a pool does
		p.readings[backend] = r
	}
	return true
}

func (p *recordingPool) ReceivePlacements(placements []prefix.Placement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.placed = append(p.placed, placements...)
}

func (p *recordingPool) ReceiveDrains(drained map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drained, p.drainCalls = drained, p.drainCalls+1
}

func (p *recordingPool) reading(backend string) pressure.Reading {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readings[backend]
}

func (p *recordingPool) drains() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.drained)
}

func (p *recordingPool) places() []prefix.Placement {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]prefix.Placement(nil), p.placed...)
}

// member is a replica in a test.
type member struct {
	*Fleet
	small, large *recordingPool
	log          *lines
	trips        *trips
}

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), what)
}

// trips counts round trips.
type trips struct {
	mu sync.Mutex
	n  int
}

func (t *trips) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

func (t *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		t.mu.Lock()
		t.n++
		t.mu.Unlock()
		return next(ctx, cmd)
	}
}

func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		t.mu.Lock()
		t.n++
		t.mu.Unlock()
		return next(ctx, cmds)
	}
}

// join makes a replica with two pools. It runs when the test says so.
func join(t *testing.T, o *redis.Options, id string) *member {
	t.Helper()
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	m := &member{small: &recordingPool{name: "small"}, large: &recordingPool{name: "large"}, log: &lines{}, trips: &trips{}}
	c.AddHook(m.trips)
	m.Fleet = New(Options{Redis: c, Replica: id, Logger: zerolog.New(m.log)})
	m.SetPools([]Pool{m.small, m.large})
	return m
}

// run runs a replica until stop, or the test's end.
func (m *member) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// ticks has every replica tick, in this order.
func ticks(t *testing.T, members ...*member) {
	t.Helper()
	for _, m := range members {
		m.tick(t.Context())
		select {
		case <-m.wakeup: // as Run does
			m.tick(t.Context())
		default:
		}
	}
}

func (m *member) count(kind string) int {
	return int(testutil.ToFloat64(m.metrics.errors.WithLabelValues(kind)))
}

// order has a replica that does not run carry out an order.
func (m *member) order(give func() error) error {
	done := make(chan error, 1)
	go func() { done <- give() }()
	for {
		select {
		case err := <-done:
			return err
		case <-m.wakeup:
			m.tick(context.Background())
		}
	}
}

// drain has a replica that does not run drain a backend of a pool.
func (m *member) drain(t *testing.T, backend string, d time.Duration) error {
	t.Helper()
	return m.order(func() error { return m.Drain(t.Context(), "small", backend, "why", d) })
}

// stores runs a test on miniredis and on a real Redis. raw is for the test's own hands.
func stores(t *testing.T, test func(t *testing.T, o *redis.Options, raw *redis.Client)) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) { test(t, redistest.Background(addr), raw) })
}

// nextMillisecond waits for the clock, which Redis shares, to go on.
func nextMillisecond(t testing.TB) {
	now := time.Now().UnixMilli()
	redistest.Within(t, time.Second, "the clock goes on", func() bool { return time.Now().UnixMilli() > now })
}

// owners tells who of the members scrapes each of n backends of a pool.
func owners(pool string, n int, members ...*member) map[string][]string {
	by := map[string][]string{}
	for i := range n {
		backend := fmt.Sprint("b", i)
		by[backend] = nil
		for _, m := range members {
			if m.Mine(pool, backend) {
				by[backend] = append(by[backend], m.self)
			}
		}
	}
	return by
}

// oneEach fails unless every backend has exactly one owner.
func oneEach(t *testing.T, by map[string][]string) {
	t.Helper()
	for backend, who := range by {
		if len(who) != 1 {
			t.Errorf("%s has the owners %v", backend, who)
		}
	}
}

// busy is a reading that was taken at a time.
func busy(at time.Time, usage float64) pressure.Reading {
	return pressure.Reading{
		At: at, KVUsage: usage, Running: 3, Waiting: 1, Engines: 2, BlockSize: 16, Blocks: 1000,
		PromptTokens: 12345, GenerationTokens: 0.5, PrefixQueries: 1e15, PrefixHits: 7, Preemptions: 1, Iterations: 99, Answers: true,
	}
}
