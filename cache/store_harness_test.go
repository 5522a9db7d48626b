package cache

import (
	"context"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// requestOptions are those of cmd/foregate's client for the request path.
func requestOptions(addr string) *redis.Options {
	redis.SetLogger(quiet{})
	return &redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: 250 * time.Millisecond, ReadTimeout: 100 * time.Millisecond, WriteTimeout: 100 * time.Millisecond,
		PoolSize: 32, MaxActiveConns: 64, PoolTimeout: 5 * time.Millisecond, PipelinePoolSize: -1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func clientOf(t testing.TB, o *redis.Options) *redis.Client {
	t.Helper()
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
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
	return clientOf(s.t, &redis.Options{Addr: s.addr, DisableIdentity: true, MaxRetries: -1})
}

// within polls until ok, or fails.
func within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > limit {
			t.Fatalf("after %v still not: %s", limit, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// must fails a test for an error of its own hands.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// onBoth runs a test on miniredis and on a real Redis.
func onBoth(t *testing.T, run func(t *testing.T, addr string, raw *redis.Client)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		m := miniredis.RunT(t)
		m.ClockTTL(true)
		run(t, m.Addr(), clientOf(t, &redis.Options{Addr: m.Addr()}))
	})
	t.Run("redis", func(t *testing.T) {
		s := serve(t)
		run(t, s.addr, s.raw())
	})
}

// patient is a budget that a busy machine keeps: what is late would be a miss.
func patient() time.Duration { return 5 * time.Second }

// storeAt is a store whose client is as patient as its budget.
func storeAt(t testing.TB, addr string) *Store {
	t.Helper()
	o := requestOptions(addr)
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = patient(), patient(), patient()
	return NewStore(Options{Redis: clientOf(t, o), Budget: patient, Registerer: prometheus.NewRegistry()})
}

// running runs a store until stop, or the test's end.
func running(t testing.TB, s *Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// clock is a hand on a store's time.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time      { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) add(d time.Duration) { c.ahead.Add(int64(d)) }

// answerOf is an entry of a request.
func answerOf(k Key, n int) *Entry {
	e := entryNo(int(k.name[0]), n)
	e.Created = time.UnixMilli(time.Now().UnixMilli())
	return e
}

// leaseOf is one replica's, for a request under way.
func leaseOf(k Key) *Lease { return newLease(GenerationID{Key: k}) }

// keep puts an entry and waits until Redis has it.
func keep(t testing.TB, s *Store, k Key, e *Entry) {
	t.Helper()
	done := make(chan struct{})
	s.Put(k, e, time.Hour, func() { close(done) })
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it is not told when an entry is kept")
	}
}

// wantFound looks once.
func wantFound(t testing.TB, s *Store, k Key, lease *Lease, want Found) *Entry {
	t.Helper()
	e, got := s.Look(t.Context(), k, lease)
	if got != want || (e != nil) != (want == FoundHit) {
		t.Fatalf("found %s (entry %t), want %s", got, e != nil, want)
	}
	return e
}

// late is a proxy before Redis whose answers come after a while, and which counts connections.
type late struct {
	addr        string
	by          atomic.Int64
	connections atomic.Int64
}

func lateBy(t testing.TB, to string, by time.Duration) *late {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := &late{addr: ln.Addr().String()}
	l.by.Store(int64(by))
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			l.connections.Add(1)
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			go l.relay(out, in, false)
			go l.relay(in, out, true)
		}
	}()
	return l
}

// relay copies until either end closes.
func (l *late) relay(to, from net.Conn, delayed bool) {
	defer func() { _ = to.Close(); _ = from.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if delayed {
			time.Sleep(time.Duration(l.by.Load()))
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// number is what stands behind a name in one of Redis' lines.
func number(t testing.TB, line, name string) int {
	t.Helper()
	_, rest, _ := strings.Cut(line, name)
	rest, _, _ = strings.Cut(rest, ",")
	n, err := strconv.Atoi(rest)
	must(t, err)
	return n
}
