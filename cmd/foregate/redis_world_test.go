package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/config"
)

// redisExe is where redis-server is. Without one the test is skipped, except in CI.
func redisExe(t *testing.T) string {
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

// redisNode is one redis-server process with arguments of its own.
type redisNode struct {
	addr string
	args []string
	exe  string
	cmd  *exec.Cmd // nil while it is dead
	raw  *redis.Client
}

// node starts a redis-server at a free port, or at that of o.Addr, and ends it with the
// test. o says how the test itself talks to it; nil is by its port.
func node(t *testing.T, o *redis.Options, args ...string) *redisNode {
	t.Helper()
	if o == nil {
		o = &redis.Options{}
	}
	n := &redisNode{exe: redisExe(t)}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:" + freePort(t)
		_, port, _ := net.SplitHostPort(o.Addr)
		args = append([]string{"--port", port}, args...)
	}
	n.addr, n.args = o.Addr, append(args, "--bind", "127.0.0.1", "--dir", t.TempDir())
	if !slices.Contains(args, "--sentinel") { // which have nothing to save, and know no word for it
		n.args = append(n.args, "--save", "", "--appendonly", "no")
	}
	o.DialTimeout, o.ReadTimeout, o.MaxRetries = time.Second, time.Second, -1
	n.raw = redis.NewClient(o)
	t.Cleanup(func() {
		_ = n.raw.Close() // only connections are lost
		n.kill()
	})
	n.start(t)
	return n
}

func (n *redisNode) start(t *testing.T) {
	t.Helper()
	n.cmd = exec.Command(n.exe, n.args...)
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "redis-server answers", func() bool { return n.raw.Ping(t.Context()).Err() == nil })
}

// kill ends the server, also one that is frozen.
func (n *redisNode) kill() {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill() // by its id
		_ = n.cmd.Wait()         // it says that it was killed
		n.cmd = nil
	}
}

func (n *redisNode) freeze(t *testing.T) { n.signal(t, syscall.SIGSTOP) }
func (n *redisNode) thaw(t *testing.T)   { n.signal(t, syscall.SIGCONT) }

func (n *redisNode) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// do sends a command by the test's own hands.
func (n *redisNode) do(t *testing.T, args ...any) any {
	t.Helper()
	reply, err := n.raw.Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	_ = ln.Close() // the port is for the server
	return port
}

// sentinels are a master, a replica of it, and three Sentinels that ask for a password and
// find the master gone after a second.
type sentinels struct {
	master, replica *redisNode
	addrs           []string
}

func newSentinels(t *testing.T) *sentinels {
	t.Helper()
	s := &sentinels{master: node(t, nil)}
	host, port, _ := net.SplitHostPort(s.master.addr)
	s.replica = node(t, nil, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	s.master.do(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	eventually(t, "the replica follows", func() bool {
		return strings.Contains(fmt.Sprint(s.replica.do(t, "INFO", "replication")), "master_link_status:up")
	})
	var watchers []*redisNode
	for range 3 {
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		at := freePort(t)
		text := "port " + at + "\nrequirepass watch\nsentinel monitor fg " + host + " " + port + " 2\nsentinel down-after-milliseconds fg 1000\nsentinel failover-timeout fg 4000\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w := node(t, &redis.Options{Password: "watch", Addr: "127.0.0.1:" + at}, file, "--sentinel")
		watchers = append(watchers, w)
		s.addrs = append(s.addrs, w.addr)
	}
	eventually(t, "the Sentinels know each other and the replica", func() bool {
		for _, w := range watchers {
			about := fmt.Sprint(w.do(t, "INFO", "sentinel"))
			if !strings.Contains(about, "status=ok") || !strings.Contains(about, "slaves=1,sentinels=3") {
				return false
			}
		}
		return true
	})
	return s
}

// cluster are three masters that share the slots.
type cluster struct{ nodes []*redisNode }

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{}
	var bus []string
	for range 3 {
		bus = append(bus, freePort(t))
		c.nodes = append(c.nodes, node(t, nil, "--cluster-enabled", "yes", "--cluster-port", bus[len(bus)-1],
			"--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no"))
	}
	for i, n := range c.nodes {
		n.do(t, "CLUSTER", "ADDSLOTSRANGE", i*5461, min(i*5461+5460, 16383))
		if i > 0 {
			_, port, _ := net.SplitHostPort(c.nodes[0].addr)
			n.do(t, "CLUSTER", "MEET", "127.0.0.1", port, bus[0])
		}
	}
	c.nodes[2].do(t, "CLUSTER", "ADDSLOTS", 16383)
	eventually(t, "the cluster is whole", func() bool {
		for _, n := range c.nodes {
			about := fmt.Sprint(n.do(t, "CLUSTER", "INFO"))
			if !strings.Contains(about, "cluster_state:ok") || !strings.Contains(about, "cluster_known_nodes:3") || !strings.Contains(about, "cluster_slots_ok:16384") {
				return false
			}
		}
		return true
	})
	return c
}

func (c *cluster) url() string {
	var addrs []string
	for _, n := range c.nodes {
		addrs = append(addrs, n.addr)
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

// of is the node that has a key's slot, and the others.
func (c *cluster) of(t *testing.T, key string) (slot int64, has *redisNode, others []*redisNode) {
	t.Helper()
	slot, _ = c.nodes[0].do(t, "CLUSTER", "KEYSLOT", key).(int64)
	for i, n := range c.nodes {
		if slot >= int64(i*5461) && slot <= int64(i*5461+5460) || i == 2 && slot == 16383 {
			has = n
		} else {
			others = append(others, n)
		}
	}
	return slot, has, others
}

// certificates writes an authority's certificate, and one with its key that servers and
// clients may show: 127.0.0.1 and redis.internal.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	signed := func(c, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			signer = own
		}
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, c, parent, own.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		return der, own
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, signer := signed(authority, authority, nil)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "redis.internal"}, DNSNames: []string{"redis.internal"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	leafDER, own := signed(leaf, authority, signer)
	keyDER, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return write("ca.pem", "CERTIFICATE", der), write("cert.pem", "CERTIFICATE", leafDER), write("key.pem", "EC PRIVATE KEY", keyDER)
}

// pair is two replicas in this process that share a Redis and a backend.
type pair struct {
	replicas [2]*app.App
	logs     [2]*syncBuffer
	request  redis.UniversalClient // the first one's, of the request's path
}

// pairToken is that of the one operator of a pair.
const pairToken = "the-token-of-ann-who-operates-a-pair"

// newPair starts two replicas; section is the configuration of redis.
func newPair(t *testing.T, section string) *pair {
	t.Helper()
	p := &pair{}
	backend := loaded(t, fleetModel, 0.5)
	for i := range p.replicas {
		file, err := config.Parse("pair", fmt.Appendf(nil, `
listen: 127.0.0.1:0
redis: {%s}
pools: {only: {model: %s, backends: [%q]}}
routes: [{model: m, target: only}]
drain: {delay: 0s, grace: 1s}
`, section, fleetModel, backend.URL))
		if err != nil {
			t.Fatal(err)
		}
		p.logs[i] = &syncBuffer{}
		r, store := assembled(t, file, func(of *app.Options) {
			of.Logger = zerolog.New(writer{p.logs[i]})
			of.Admin, of.Tokens = "127.0.0.1:0", []byte("ann operate "+pairToken)
		})
		started(t, r)
		p.replicas[i] = r
		if i == 0 {
			p.request = store.Lookups
		}
	}
	return p
}

// shared reports whether both know of each other, and both have a young reading of the
// backend, which one of them took.
func (p *pair) shared() bool {
	owners := 0
	for _, r := range p.replicas {
		b := r.Pools["only"].Snapshot()[0]
		if r.Fleet.Mode().String() != "shared" || len(r.Fleet.Members()) != 2 || !b.HasReading || time.Since(b.Reading.At) > fresh {
			return false
		}
		if r.Fleet.Mine("only", b.ID) {
			owners++
		}
	}
	return owners == 1
}

// mode reports whether both are in a mode.
func (p *pair) mode(mode string) bool {
	return p.replicas[0].Fleet.Mode().String() == mode && p.replicas[1].Fleet.Mode().String() == mode
}

// lostTick is a gap by which a replica may have missed what it does a few times a second.
const lostTick = 100 * time.Millisecond

// gaps watches how the machine keeps up: it looks every 20 ms until widest is called, which
// tells the longest time from one look to the end of the next.
func gaps(t *testing.T, look func()) (widest func() time.Duration) {
	t.Helper()
	stop, told := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		tick := time.NewTicker(4 * pollEvery)
		defer tick.Stop()
		most, last := time.Duration(0), time.Now()
		for {
			select {
			case <-stop:
				told <- most
				return
			case <-tick.C:
			}
			look()
			now := time.Now()
			most, last = max(most, now.Sub(last)), now
		}
	}()
	end := sync.OnceValue(func() time.Duration { close(stop); return <-told })
	t.Cleanup(func() { end() })
	return end
}

// obeys has hands write a setting and waits until it is in force on both.
func (p *pair) obeys(t *testing.T, hands redis.Cmdable, interval time.Duration) {
	t.Helper()
	if err := hands.HSet(t.Context(), "foregate:settings", "scrape.interval", interval.String()).Err(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventually(t, "the setting is in force on both", func() bool {
		for _, r := range p.replicas {
			if r.Settings.Snapshot().Global().Pressure.Interval != interval {
				return false
			}
		}
		return true
	})
	t.Logf("the setting was in force after %v", time.Since(began).Round(time.Millisecond))
}

// lines counts what the first replica said about its rung.
func (p *pair) lines(what string) int { return strings.Count(p.logs[0].String(), what) }

// writer lets a log be written into a buffer that is read meanwhile.
type writer struct{ *syncBuffer }

// Write takes a line.
func (w writer) Write(b []byte) (int, error) {
	w.write(b)
	return len(b), nil
}
