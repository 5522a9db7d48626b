package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

const (
	fleetModel = "m"
	// busyMachine is what a machine that does other things, too, may add to a time that is
	// promised: the gateways are race builds, and all of a test shares a few cores.
	busyMachine = 500 * time.Millisecond
	// fresh is how old a reading may be that counts as it is.
	fresh = 2 * time.Second
)

// fleetWorld is three replicas that share a Redis and the backends behind them.
type fleetWorld struct {
	redis    *redisServer
	sims     []*vllmsim.Server
	replicas []*server
}

// newFleet starts n backends, a Redis with the given settings and three replicas, and
// waits until these know of each other and of every backend. The backends run in real
// time.
func newFleet(t *testing.T, n int, settings ...string) *fleetWorld {
	t.Helper()
	w := &fleetWorld{}
	for range n {
		w.sims = append(w.sims, vllmsim.Start(t, vllmsim.Options{Model: fleetModel, Seed: simSeed}))
	}
	var urls []string
	for _, s := range w.sims {
		urls = append(urls, s.URL())
	}
	w.start(t, fmt.Sprintf("backends: [%s]", strings.Join(urls, ", ")), settings...)
	w.settled(t)
	return w
}

// start runs Redis and three replicas; where says where the backends are.
func (w *fleetWorld) start(t *testing.T, where string, settings ...string) {
	t.Helper()
	w.redis = newRedisServer(t)
	settings = append([]string{"speculation.mode", "confidence"}, settings...) // drafts from the first request on
	if err := w.redis.client.HSet(t.Context(), "foregate:settings", settings).Err(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.replicas = append(w.replicas, serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools: {only: {model: %s, %s}}
routes: [{model: %s, target: only}]
drain: {delay: 0s, grace: 5s}
`, w.redis.addr, fleetModel, where, routeUsual)))
	}
	t.Cleanup(func() { // all at once: a race build takes a second to end
		for _, p := range w.replicas {
			p.interrupt()
		}
		for _, p := range w.replicas {
			select {
			case <-p.exited:
			case <-time.After(stopWait): // the process' own cleanup says so
			}
		}
	})
}

// settled waits until every replica knows the others and has a reading of every backend.
func (w *fleetWorld) settled(t *testing.T) {
	t.Helper()
	eventually(t, "the replicas share with each other", func() bool { return w.all(func(p *server) bool { return shares(t, p, 3) }) })
	eventually(t, "every backend was read", func() bool { return oldest(t, w.replicas...) < fresh })
}

// all reports whether ok is true of every replica.
func (w *fleetWorld) all(ok func(p *server) bool) bool {
	for _, p := range w.replicas {
		if !ok(p) {
			return false
		}
	}
	return true
}

// shares reports whether a replica is in the mode shared with so many replicas.
func shares(t *testing.T, p *server, members int) bool {
	t.Helper()
	page := p.metrics(t)
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

// seen is one backend as GET /admin/backends shows it.
type seen struct {
	ID, URL, State, Why string
	InFlight            int      `json:"in_flight"`
	Age                 *float64 `json:"reading_age_seconds"`
}

// sees is what a replica says of its backends, by URL.
func (p *server) sees(t *testing.T) map[string]seen {
	t.Helper()
	status, body := get(t, p.admin+"/admin/backends")
	if status != http.StatusOK {
		t.Fatalf("GET /admin/backends: status %d", status)
	}
	var list struct{ Pools []struct{ Backends []seen } }
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatalf("GET /admin/backends: %v in %s", err, body)
	}
	by := map[string]seen{}
	for _, p := range list.Pools {
		for _, b := range p.Backends {
			by[b.URL] = b
		}
	}
	return by
}

// age is how old the reading is; one that there is not is as old as can be.
func (s seen) age() time.Duration {
	if s.Age == nil {
		return math.MaxInt64
	}
	return time.Duration(*s.Age * float64(time.Second))
}

// oldest is the age of the oldest reading that any of the replicas has of any backend.
func oldest(t *testing.T, replicas ...*server) time.Duration {
	t.Helper()
	most := time.Duration(0)
	for _, p := range replicas {
		for _, s := range p.sees(t) {
			most = max(most, s.age())
		}
	}
	return most
}

// states reports whether every replica says that a backend is in the given state.
func (w *fleetWorld) states(t *testing.T, url, state string) bool {
	t.Helper()
	return w.all(func(p *server) bool { return p.sees(t)[url].State == state })
}

// during calls look over and over for a while, and tells how long the slowest look took:
// milliseconds, or the machine has no time for the replicas either.
func during(d time.Duration, look func()) (slowest time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		began := time.Now()
		look()
		took := time.Since(began)
		slowest = max(slowest, took)
		<-time.After(max(4*pollEvery, took))
	}
	return slowest
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

// count adds up what the backends were asked for at a path.
func (w *fleetWorld) count(path string) (all int, each []int) {
	for _, s := range w.sims {
		n := s.State().Requests[path]
		each = append(each, n)
		all += n
	}
	return all, each
}

// asked is how many requests of clients have reached a backend; the replicas' own
// questions go elsewhere.
func asked(s *vllmsim.Server) int { return s.State().Requests[chat] }

// lastAsked watches a backend, and looks, until so long after the given time; it tells
// how long after it the last request of a client reached the backend.
func lastAsked(s *vllmsim.Server, since time.Time, d time.Duration, look func()) (last, slowest time.Duration) {
	was := asked(s)
	slowest = during(d-time.Since(since), func() {
		if now := asked(s); now != was {
			last, was = time.Since(since), now
		}
		look()
	})
	return last, slowest
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
	eventually(t, "redis-server answers", func() bool { return r.client.Ping(t.Context()).Err() == nil })
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

// owners tells how many backends each replica was the last to read, by what it calls
// itself.
func (r *redisServer) owners(t *testing.T) map[string]int {
	t.Helper()
	readings, err := r.client.HGetAll(t.Context(), "foregate:{fg}:pressure:only").Result()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]int{}
	for _, value := range readings {
		if words := strings.Fields(value); len(words) > 2 {
			by[words[2]]++
		}
	}
	return by
}

// replicaID is what a replica calls itself.
func (p *server) replicaID(t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(p.log.String()) {
		var said struct{ Replica, Mode string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Replica != "" && said.Mode == "shared" {
			return said.Replica
		}
	}
	t.Fatalf("the log does not tell the replica's id:\n%s", p.log.String())
	return ""
}
