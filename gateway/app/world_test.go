package app_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// busyMachine is what a machine that does other things, too, may add to a time that is promised.
const busyMachine = 500 * time.Millisecond

// all reports whether ok is true of every replica.
func (w *riskFleet) all(ok func(p *apptest.Replica) bool) bool {
	for _, p := range w.replicas {
		if !ok(p) {
			return false
		}
	}
	return true
}

// shares reports whether a replica is in the mode shared with so many replicas.
func shares(t *testing.T, p *apptest.Replica, members int) bool {
	t.Helper()
	page := p.Metrics(t)
	return fleetMode(page) == "shared" && strings.Contains(page, fmt.Sprintf("foregate_fleet_replicas %d\n", members))
}

// fleetMode is the mode that a page of metrics tells.
func fleetMode(page string) string {
	for _, mode := range []string{"shared", "degraded", "local"} {
		if strings.Contains(page, fmt.Sprintf("foregate_redis_mode{mode=%q} 1\n", mode)) {
			return mode
		}
	}
	return ""
}

// promised fails the test when something took longer than is promised, beyond what the
// machine may be to blame for.
func promised(t *testing.T, what string, took, limit, slowest time.Duration) {
	t.Helper()
	t.Logf("%s: %v, promised %v (slowest look %v)", what, took.Round(time.Millisecond), limit, slowest.Round(time.Millisecond))
	if took > limit+busyMachine+5*slowest {
		t.Errorf("%s: %v, promised %v", what, took, limit)
	}
}

// redisServer is a redis-server that can die and come back at its address.
type redisServer struct {
	addr   string
	client *redis.Client

	exe string
	cmd *exec.Cmd // nil while it is dead
}

// newRedisServer runs a redis-server until the test ends.
func newRedisServer(t *testing.T) *redisServer {
	t.Helper()
	exe, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("redis-server is not in PATH, and CI must run this test")
		}
		t.Skip("redis-server is not in PATH; install it (apt-get install redis-server) to run this test")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &redisServer{addr: ln.Addr().String(), exe: exe}
	_ = ln.Close() // the port is for the server
	r.client = redis.NewClient(&redis.Options{Addr: r.addr})
	t.Cleanup(func() {
		_ = r.client.Close() // only connections are lost
		r.kill()
	})
	r.start(t)
	return r
}

func (r *redisServer) start(t *testing.T) {
	t.Helper()
	_, port, _ := net.SplitHostPort(r.addr)
	r.cmd = exec.Command(r.exe, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, "redis-server answers", func() bool { return r.client.Ping(t.Context()).Err() == nil })
}

// kill ends the server, also one that is frozen.
func (r *redisServer) kill() {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Kill() // by its id
	_ = r.cmd.Wait()         // it says that it was killed
	r.cmd = nil
}

func (r *redisServer) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
