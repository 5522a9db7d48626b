package limits

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// options are those of cmd/foregate's client for the request path.
func options(addr string) *redis.Options {
	redis.SetLogger(quiet{})
	return &redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: 250 * time.Millisecond, ReadTimeout: 100 * time.Millisecond, WriteTimeout: 100 * time.Millisecond,
		PoolSize: 32, MaxActiveConns: 64, PoolTimeout: 50 * time.Millisecond, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

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

// patient is one end of a net.Pipe whose Write does not wait for the reader: miniredis
// answers a pipeline while it reads it.
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
	cmd  *exec.Cmd
}

// serve starts a redis-server on a free port.
func serve(t testing.TB) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("there is no redis-server here")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, addr: ln.Addr().String()}
	_ = ln.Close() // the server takes the port
	t.Cleanup(s.stop)
	s.start()
	return s
}

func (s *server) start() {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.addr)
	s.cmd = exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", s.t.TempDir())
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	c := s.raw()
	within(s.t, 10*time.Second, "redis-server answers", func() bool { return c.Ping(context.Background()).Err() == nil })
}

func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// stop kills the server.
func (s *server) stop() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	_ = s.cmd.Wait() // it says that it was killed
	s.cmd = nil
}

// raw is for the test's own hands.
func (s *server) raw() *redis.Client {
	o := options(s.addr)
	o.ReadTimeout, o.WriteTimeout = 10*time.Second, 10*time.Second // a busy machine stalls
	c := redis.NewClient(o)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// within polls until ok, or fails.
func within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > limit {
			t.Fatalf("after %v still not: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// switchboard makes connections that fail while it is off.
type switchboard struct {
	off  atomic.Bool
	dial func(context.Context, string, string) (net.Conn, error)
}

func (b *switchboard) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	if b.off.Load() {
		return nil, syscall.ECONNREFUSED
	}
	c, err := b.dial(ctx, network, addr)
	return &severable{c, b}, err
}

type severable struct {
	net.Conn
	board *switchboard
}

func (c *severable) Write(b []byte) (int, error) {
	if c.board.off.Load() {
		return 0, syscall.ECONNRESET
	}
	return c.Conn.Write(b)
}

func refuse(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
