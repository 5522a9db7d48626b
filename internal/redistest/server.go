// Package redistest starts Redis for tests: one server ([Start]), a master behind Sentinels ([StartSentinels]), a cluster
// ([StartCluster]), or one inside the process ([Embedded]), and makes them fail: killed, restarted, frozen, forgetful, slow,
// unreachable. Everything listens on loopback at free ports and ends with the test, by its process id.
//
// Where redis-server is not installed a test is skipped; in CI (the variable CI is set) it fails.
package redistest

import (
	"context"
	"flag"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// parallel is how many tests run at the same time: they wait for servers and timers, not for the CPU.
const parallel = "4"

// Main runs a package's tests, more of them at the same time than there are cores.
func Main(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(parallel) // it is a number
	}
	os.Exit(m.Run())
}

// Server is one redis-server process.
type Server struct {
	Addr   string        // host:port, or the path of a socket
	Client *redis.Client // the test's own, patient on a busy machine
	Dir    string        // where it writes what it is told to save

	t    testing.TB
	exe  string
	args []string
	cmd  *exec.Cmd // nil while it is dead
}

// Start starts a redis-server at a free port, without persistence, which ends with the test. args are more of its
// arguments.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartWith(t, &redis.Options{}, args...)
}

// StartWith is [Start] for a server that the test's own client reaches in another way, by a socket, with TLS or a user.
// Where hands.Addr is set, args make the server listen there.
func StartWith(t testing.TB, hands *redis.Options, args ...string) *Server {
	t.Helper()
	o := *hands
	s := &Server{t: t, exe: Executable(t), Dir: t.TempDir()}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:" + FreePort(t)
		_, port, _ := net.SplitHostPort(o.Addr)
		args = append([]string{"--port", port}, args...)
	}
	s.Addr, s.args = o.Addr, slices.Concat(args, []string{"--bind", "127.0.0.1", "--dir", s.Dir})
	if !slices.Contains(args, "--sentinel") { // a Sentinel saves nothing, and does not know these words
		s.args = append(s.args, "--save", "", "--appendonly", "no")
	}
	o.DialTimeout, o.ReadTimeout, o.MaxRetries, o.DisableIdentity = 10*time.Second, 10*time.Second, -1, true
	s.Client = redis.NewClient(&o)
	t.Cleanup(func() {
		_ = s.Client.Close() // only connections are lost
		s.Kill()
	})
	s.Restart()
	return s
}

// Executable is where redis-server is. Without one the test is skipped; in CI it fails.
func Executable(t testing.TB) string {
	t.Helper()
	exe, err := exec.LookPath("redis-server")
	if err == nil {
		return exe
	}
	if os.Getenv("CI") != "" {
		t.Fatal("redis-server is not in PATH, and CI must run this test")
	}
	t.Skip("redis-server is not in PATH; install it (apt-get install redis-server) to run this test")
	return ""
}

// FreePort is a port of 127.0.0.1 that nobody has at the moment.
func FreePort(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	_ = ln.Close() // the port is for the server
	return port
}

// Port is that of the server's address.
func (s *Server) Port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// Restart starts the server, after [Server.Kill] without its data, and waits until it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.cmd = exec.Command(s.exe, s.args...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	Eventually(s.t, "redis-server answers", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return s.Client.Ping(ctx).Err() == nil
	})
}

// Kill ends the server at once, also one that is frozen.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // by its id
		_ = s.cmd.Wait()         // it says that it was killed
		s.cmd = nil
	}
}

// Freeze stops the server's process: connections stay open, and nothing is answered.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Do sends a command, which must succeed.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	reply, err := s.Client.Do(s.t.Context(), args...).Result()
	if err != nil {
		s.t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// Eventually polls until ok, and fails the test after 20 s.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Within(t, 20*time.Second, what, ok)
}

// Within polls until ok, and returns how long that took. It fails the test after the limit.
func Within(t testing.TB, limit time.Duration, what string, ok func() bool) time.Duration {
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
