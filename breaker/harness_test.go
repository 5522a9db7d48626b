package breaker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// site is where the backends are: what is wrong with each, and who probed them.
type site struct {
	mu     sync.Mutex
	wrong  map[string]error // by backend
	probes []probed
}

type probed struct {
	by, backend string
	at          time.Time
	well        bool
}

func (w *site) set(backend string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wrong == nil {
		w.wrong = map[string]error{}
	}
	w.wrong[backend] = err
}

func (w *site) probe(by, backend string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.wrong[backend]
	w.probes = append(w.probes, probed{by, backend, time.Now(), err == nil})
	return err
}

func (w *site) seen() []probed {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]probed(nil), w.probes...)
}

// member is a replica in a test.
type member struct {
	*Set
	id     string
	client *redis.Client
	log    *lines
	cmds   *commands
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

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) count(what string) int { return strings.Count(l.String(), what) }

// commands counts what is sent to Redis.
type commands struct {
	mu sync.Mutex
	n  int
}

func (h *commands) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

func (h *commands) add(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n += n
}

func (h *commands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.add(1)
		return next(ctx, cmd)
	}
}

func (h *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.add(len(cmds))
		return next(ctx, cmds)
	}
}

// join makes a replica. It runs when the test says so.
func join(t testing.TB, o *redis.Options, id string, w *site, more ...func(*Options)) *member {
	t.Helper()
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	m := &member{id: id, client: c, log: &lines{}, cmds: &commands{}}
	c.AddHook(m.cmds)
	opts := Options{
		Redis: c, Classify: judge, Logger: zerolog.New(m.log), Registerer: prometheus.NewPedanticRegistry(),
		Probe: func(_ context.Context, _, backend string) error { return w.probe(id, backend) },
	}
	for _, change := range more {
		change(&opts)
	}
	m.Set = New(opts)
	return m
}

var errUnreachable = errors.New("connection refused")

// judge is classify, with what cannot be reached.
func judge(err error) Outcome {
	if errors.Is(err, errUnreachable) {
		return Unreachable
	}
	return classify(err)
}

// fleetOf runs n replicas.
func fleetOf(t testing.TB, o *redis.Options, n int, w *site, more ...func(*Options)) []*member {
	t.Helper()
	var all []*member
	for i := range n {
		m := join(t, o, fmt.Sprint("r", i), w, more...)
		m.run(t)
		all = append(all, m)
	}
	return all
}

// run runs a replica until stop, or the test's end.
func (m *member) run(t testing.TB) (stop func()) {
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

// calls has a replica make n calls to a backend of the pool big that end with err, as far
// as it may, and tells how many that were.
func (m *member) calls(backend string, n int, err error) (made int) {
	for range n {
		permit, refused := m.Allow("big", backend)
		if refused != nil {
			return made
		}
		permit.Report(err)
		made++
	}
	return made
}

// state is that of a backend of the pool big.
func (m *member) state(backend string) Status {
	for _, s := range m.States() {
		if s.Pool == "big" && s.Backend == backend {
			return s
		}
	}
	return Status{}
}

func (m *member) failures() int { return int(testutil.ToFloat64(m.metrics.errors)) }

// every reports whether all replicas are in a state as to a backend of the pool big.
func every(all []*member, backend string, state State) bool {
	for _, m := range all {
		if m.state(backend).State != state {
			return false
		}
	}
	return true
}
