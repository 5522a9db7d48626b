package breaker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/breaker/machine"
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
	id   string
	log  *lines
	cmds *commands
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

// options are those of cmd/foregate's control client.
func options(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: 250 * time.Millisecond, ReadTimeout: 250 * time.Millisecond, WriteTimeout: 250 * time.Millisecond,
		PoolSize: 4, MaxActiveConns: 8, PoolTimeout: 50 * time.Millisecond, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// join makes a replica. It runs when the test says so.
func join(t testing.TB, o *redis.Options, id string, w *site, more ...func(*Options)) *member {
	t.Helper()
	redis.SetLogger(quiet{})
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	m := &member{id: id, log: &lines{}, cmds: &commands{}}
	c.AddHook(m.cmds)
	opts := Options{
		Redis: c, Replica: id, Classify: judge, Logger: zerolog.New(m.log), Registerer: prometheus.NewPedanticRegistry(),
		Probe: func(_ context.Context, _, backend string) error { return w.probe(id, backend) },
	}
	for _, change := range more {
		change(&opts)
	}
	m.Set = New(opts)
	return m
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

var errUnreachable = errors.New("connection refused")

// judge is classify, with what cannot be reached.
func judge(err error) machine.Outcome {
	if errors.Is(err, errUnreachable) {
		return machine.Unreachable
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
func (m *member) state(backend string) State {
	for _, s := range m.States() {
		if s.Pool == "big" && s.Backend == backend {
			return s
		}
	}
	return State{}
}

func (m *member) failures() int { return int(testutil.ToFloat64(m.metrics.errors)) }

// every reports whether all replicas are in a state as to a backend of the pool big.
func every(all []*member, backend, state string) bool {
	for _, m := range all {
		if m.state(backend).State != state {
			return false
		}
	}
	return true
}

// embedded is a miniredis reached through a pipe. Its clock is the bubble's in one.
func embedded(t testing.TB) (*miniredis.Miniredis, *redis.Options) {
	t.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	o := options("127.0.0.1:1")
	o.Dialer = func(context.Context, string, string) (net.Conn, error) {
		c, err := m.Dial()
		if err != nil {
			return nil, err
		}
		return newPatient(c), nil
	}
	return m, o
}

// patient is one end of a net.Pipe whose Write does not wait for the reader: a pipeline of
// more than the 4 kB that miniredis reads ahead would wait for an answer to be read, and the
// answer for the pipeline to be written.
type patient struct {
	net.Conn
	out  chan []byte
	done chan struct{}
	once sync.Once
}

func newPatient(c net.Conn) *patient {
	p := &patient{Conn: c, out: make(chan []byte, 1<<10), done: make(chan struct{})}
	go func() {
		for {
			select {
			case b := <-p.out:
				if _, err := c.Write(b); err != nil {
					_ = p.Close()
				}
			case <-p.done:
				return
			}
		}
	}()
	return p
}

func (p *patient) Write(b []byte) (int, error) {
	select {
	case p.out <- append([]byte(nil), b...):
		return len(b), nil
	case <-p.done:
		return 0, net.ErrClosed
	}
}

func (p *patient) Close() error {
	p.once.Do(func() { close(p.done) })
	return p.Conn.Close()
}

// server is a real redis-server.
type server struct {
	t    testing.TB
	addr string
	args []string
	cmd  *exec.Cmd
}

// serve starts a real redis-server, which ends with the test.
func serve(t testing.TB, args ...string) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, addr: ln.Addr().String(), args: args}
	_ = ln.Close() // the port is for the server
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() {
	s.t.Helper()
	exe, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") != "" {
			s.t.Fatal("redis-server is not in PATH, and CI must run this test")
		}
		s.t.Skip("redis-server is not in PATH; install it (apt-get install redis-server) to run this test")
	}
	_, port, _ := net.SplitHostPort(s.addr)
	args := append([]string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", s.t.TempDir()}, s.args...)
	s.cmd = exec.Command(exe, args...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	c := redis.NewClient(options(s.addr))
	defer func() { _ = c.Close() }()
	within(s.t, 10*time.Second, "redis-server answers", func() bool { return c.Ping(context.Background()).Err() == nil })
}

// stop kills the server: it has no time to say goodbye.
func (s *server) stop() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	_ = s.cmd.Wait() // it says that it was killed
	s.cmd = nil
}

func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// within polls until ok, or fails.
func within(t testing.TB, limit time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > limit {
			t.Fatalf("after %v still not: %s", limit, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(start)
}
