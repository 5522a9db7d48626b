package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/connect"
)

// The Sentinels' name of the master, and the password that they ask for.
const (
	MasterName       = "fg"
	SentinelPassword = "watch"
)

// Sentinels are a master, a replica of it, and three Sentinels that ask for a password and
// find the master gone after a second.
type Sentinels struct {
	Master, Replica *Server
	Addrs           []string // of the Sentinels
}

// StartSentinels starts them, and waits until they know each other.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	s := &Sentinels{Master: StartWith(t, &redis.Options{})}
	host, port, _ := net.SplitHostPort(s.Master.Addr)
	s.Replica = StartWith(t, &redis.Options{}, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	s.Master.Do("CONFIG", "SET", "repl-diskless-sync-delay", "0")
	Eventually(t, "the replica follows", func() bool {
		return strings.Contains(fmt.Sprint(s.Replica.Do("INFO", "replication")), "master_link_status:up")
	})
	var watchers []*Server
	for range 3 {
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		at := FreePort(t)
		text := fmt.Sprintf("port %s\nrequirepass %s\nsentinel monitor %[3]s %s %s 2\nsentinel down-after-milliseconds %[3]s 1000\nsentinel failover-timeout %[3]s 4000\n",
			at, SentinelPassword, MasterName, host, port)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w := StartWith(t, &redis.Options{Password: SentinelPassword, Addr: "127.0.0.1:" + at}, file, "--sentinel")
		watchers = append(watchers, w)
		s.Addrs = append(s.Addrs, w.Addr)
	}
	Eventually(t, "the Sentinels know each other and the replica", func() bool {
		for _, w := range watchers {
			about := fmt.Sprint(w.Do("INFO", "sentinel"))
			if !strings.Contains(about, "status=ok") || !strings.Contains(about, "slaves=1,sentinels=3") {
				return false
			}
		}
		return true
	})
	return s
}

// Cluster is three masters that share the slots.
type Cluster struct{ Nodes []*Server }

// StartCluster starts one, and waits until it serves all slots.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{}
	var bus []string
	for range 3 {
		bus = append(bus, FreePort(t))
		c.Nodes = append(c.Nodes, StartWith(t, &redis.Options{}, "--cluster-enabled", "yes", "--cluster-port", bus[len(bus)-1],
			"--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no"))
	}
	for i, n := range c.Nodes {
		n.Do("CLUSTER", "ADDSLOTSRANGE", i*5461, min(i*5461+5460, 16383))
		if i > 0 {
			_, port, _ := net.SplitHostPort(c.Nodes[0].Addr)
			n.Do("CLUSTER", "MEET", "127.0.0.1", port, bus[0])
		}
	}
	c.Nodes[2].Do("CLUSTER", "ADDSLOTS", 16383)
	Eventually(t, "the cluster is whole", func() bool {
		for _, n := range c.Nodes {
			about := fmt.Sprint(n.Do("CLUSTER", "INFO"))
			if !strings.Contains(about, "cluster_state:ok") || !strings.Contains(about, "cluster_known_nodes:3") || !strings.Contains(about, "cluster_slots_ok:16384") {
				return false
			}
		}
		return true
	})
	return c
}

// URL names the cluster as a configuration does.
func (c *Cluster) URL() string {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr)
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

// Of is a key's slot, the node that has it, and the others.
func (c *Cluster) Of(key string) (slot int64, has *Server, others []*Server) {
	slot, _ = c.Nodes[0].Do("CLUSTER", "KEYSLOT", key).(int64)
	for i, n := range c.Nodes {
		if slot >= int64(i*5461) && slot <= int64(i*5461+5460) || i == 2 && slot == 16383 {
			has = n
		} else {
			others = append(others, n)
		}
	}
	return slot, has, others
}

// EachTopology runs a test on one server, behind Sentinels and on a cluster. masters are the servers that take writes.
func EachTopology(t *testing.T, test func(t *testing.T, where connect.Options, masters []*Server)) {
	t.Helper()
	t.Run("one server", func(t *testing.T) {
		s := Start(t)
		test(t, connect.Options{Network: "tcp", Addrs: []string{s.Addr}}, []*Server{s})
	})
	t.Run("Sentinels", func(t *testing.T) {
		t.Parallel()
		s := StartSentinels(t)
		test(t, connect.Options{Network: "tcp", Addrs: s.Addrs, Master: MasterName, SentinelPassword: SentinelPassword}, []*Server{s.Master})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := StartCluster(t)
		o := connect.Options{Network: "tcp", Cluster: true}
		for _, n := range c.Nodes {
			o.Addrs = append(o.Addrs, n.Addr)
		}
		test(t, o, c.Nodes)
	})
}
