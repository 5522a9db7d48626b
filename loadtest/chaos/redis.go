package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/loadtest/process"
)

// Topology is a way in which Redis is deployed.
type Topology int

// The topologies.
const (
	Standalone Topology = iota // one server; each gateway reaches it by a proxy of its own
	Sentinel                   // a master, a replica, three sentinels; a proxy before each of the first two
	Cluster                    // three masters; a proxy before each
)

// Redis is what was started of a topology.
type Redis struct {
	Topology  Topology
	Servers   []*Server // Standalone: one. Sentinel: the first master, its replica. Cluster: three masters
	Sentinels []*Server
	// Proxies are the proxies. Standalone: of each gateway, in order. Otherwise: before each
	// of Servers, in order; servers and sentinels reach each other through them, too.
	Proxies []*Proxy
}

const (
	masterName      = "fg"
	sentinelDown    = time.Second // until a sentinel calls a server down
	clusterDown     = time.Second // until the nodes of a cluster call one down
	clusterPatience = 20 * time.Second
)

// startRedis starts a topology, in folders below dir. What it
// started before an error is in the result, to be stopped.
func startRedis(ctx context.Context, t Topology, dir string) (*Redis, error) {
	r := &Redis{Topology: t}
	switch t {
	case Standalone:
		return r, r.startStandalone(ctx, dir)
	case Sentinel:
		return r, r.startSentinel(ctx, dir)
	case Cluster:
		return r, r.startCluster(ctx, dir)
	}
	return r, nil
}

// add makes a server at a free address with a proxy before it, and does not start it.
// args may use the proxy's port.
func (r *Redis) add(dir, name string, args func(proxy *Proxy) ([]string, error)) error {
	addrs, err := process.FreeAddrs(1)
	if err != nil {
		return err
	}
	proxy, err := NewProxy(addrs[0])
	if err != nil {
		return err
	}
	r.Proxies = append(r.Proxies, proxy)
	more, err := args(proxy)
	if err != nil {
		return err
	}
	s, err := newServer(dir, name, addrs[0], append(more, dataArgs...)...)
	if err != nil {
		return err
	}
	r.Servers = append(r.Servers, s)
	return nil
}

func (r *Redis) startStandalone(ctx context.Context, dir string) error {
	s, err := NewServer(ctx, dir, "redis")
	if err != nil {
		return err
	}
	r.Servers = []*Server{s}
	for range gateways {
		proxy, err := NewProxy(s.Addr)
		if err != nil {
			return err
		}
		r.Proxies = append(r.Proxies, proxy)
	}
	return nil
}

// NewServer starts one more server that holds data, apart from the topology. Whoever
// starts one hands it to [Testbed.Adopt].
func NewServer(ctx context.Context, dir, name string, args ...string) (*Server, error) {
	addrs, err := process.FreeAddrs(1)
	if err != nil {
		return nil, err
	}
	s, err := newServer(dir, name, addrs[0], append(args, dataArgs...)...)
	if err != nil {
		return nil, err
	}
	return s, s.Start(ctx)
}

// startSentinel starts master, replica and sentinels. All reach both servers through
// their proxies, so that a proxy can cut a server off from everybody.
func (r *Redis) startSentinel(ctx context.Context, dir string) error {
	for i := range 2 {
		err := r.add(dir, fmt.Sprintf("redis-%d", i), func(proxy *Proxy) ([]string, error) {
			args := []string{"--replica-announce-ip", "127.0.0.1", "--replica-announce-port", process.Port(proxy.Addr), "--repl-timeout", "5"}
			if i > 0 {
				args = append(args, "--replicaof", "127.0.0.1", process.Port(r.Proxies[0].Addr))
			}
			return args, nil
		})
		if err == nil {
			err = r.Servers[i].Start(ctx)
		}
		if err != nil {
			return err
		}
	}
	addrs, err := process.FreeAddrs(3)
	if err != nil {
		return err
	}
	for i, addr := range addrs {
		if err := r.startOneSentinel(ctx, dir, i, addr); err != nil {
			return err
		}
	}
	return process.Poll(ctx, clusterPatience, func() bool { return r.sentinelsAgree(ctx) })
}

func (r *Redis) startOneSentinel(ctx context.Context, dir string, i int, addr string) error {
	name := fmt.Sprintf("sentinel-%d", i)
	conf := filepath.Join(dir, name+".conf") // a sentinel rewrites it
	text := fmt.Sprintf(`bind 127.0.0.1
port %[1]s
sentinel monitor %[2]s 127.0.0.1 %[4]s 2
sentinel down-after-milliseconds %[2]s %[3]d
sentinel failover-timeout %[2]s 6000
`, process.Port(addr), masterName, sentinelDown.Milliseconds(), process.Port(r.Proxies[0].Addr))
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return err
	}
	s := &Server{Addr: addr, name: name, dir: dir, args: []string{conf, "--sentinel"}, log: &process.Log{}, Client: admin(addr)}
	r.Sentinels = append(r.Sentinels, s)
	return s.Start(ctx)
}

// sentinelsAgree reports whether every sentinel knows the other two and the replica.
func (r *Redis) sentinelsAgree(ctx context.Context) bool {
	for _, s := range r.Sentinels {
		var m map[string]string
		c := redis.NewMapStringStringCmd(ctx, "sentinel", "master", masterName)
		if s.Client.Process(ctx, c) == nil {
			m = c.Val()
		}
		if m["num-other-sentinels"] != "2" || m["num-slaves"] != "1" || m["flags"] != "master" {
			return false
		}
	}
	return true
}

// Master is which of Servers the sentinels call the master, -1 when they do not agree on
// any.
func (r *Redis) Master(ctx context.Context) int {
	found := -1
	for _, s := range r.Sentinels {
		c := redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", masterName)
		if s.Client.Process(ctx, c) != nil || len(c.Val()) != 2 {
			return -1
		}
		for i, proxy := range r.Proxies {
			if process.Port(proxy.Addr) != c.Val()[1] {
				continue
			}
			if found >= 0 && found != i {
				return -1
			}
			found = i
		}
	}
	return found
}

// slotsFrom are the first slots of the nodes: the settings' slot (14180) is on the second,
// that of {fg} (15821) on the third.
var slotsFrom = [...]int{0, 7500, 15000, 16384}

func (r *Redis) startCluster(ctx context.Context, dir string) error {
	bus, err := process.FreeAddrs(3)
	if err != nil {
		return err
	}
	for i := range 3 {
		err := r.add(dir, fmt.Sprintf("node-%d", i), func(proxy *Proxy) ([]string, error) {
			return []string{
				"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", process.Port(bus[i]),
				"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", process.Port(proxy.Addr), "--cluster-announce-bus-port", process.Port(bus[i]),
				"--cluster-node-timeout", fmt.Sprint(clusterDown.Milliseconds()), "--cluster-require-full-coverage", "no",
			}, nil
		})
		if err == nil {
			err = r.Servers[i].Start(ctx)
		}
		if err != nil {
			return err
		}
	}
	for i, s := range r.Servers {
		if err := s.Client.ClusterAddSlotsRange(ctx, slotsFrom[i], slotsFrom[i+1]-1).Err(); err != nil {
			return fmt.Errorf("%s: CLUSTER ADDSLOTSRANGE: %w", s.name, err)
		}
		if err := s.Client.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return fmt.Errorf("%s: CLUSTER SET-CONFIG-EPOCH: %w", s.name, err)
		}
	}
	for i, addr := range bus {
		if err := r.Servers[0].Client.Do(ctx, "cluster", "meet", "127.0.0.1", process.PortNumber(r.Servers[i].Addr), process.PortNumber(addr)).Err(); err != nil {
			return fmt.Errorf("%s: CLUSTER MEET: %w", r.Servers[0].name, err)
		}
	}
	if err := process.Poll(ctx, clusterPatience, func() bool { return r.clusterWhole(ctx) }); err != nil {
		return fmt.Errorf("the cluster is not whole: %w", err)
	}
	return nil
}

// clusterWhole reports whether every node sees all slots served by three nodes.
func (r *Redis) clusterWhole(ctx context.Context) bool {
	for _, s := range r.Servers {
		info, err := s.Client.ClusterInfo(ctx).Result()
		if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_ok:16384") || !strings.Contains(info, "cluster_size:3") {
			return false
		}
	}
	return true
}

// Holder is which of Servers has the slot of a key, -1 when none has.
func (r *Redis) Holder(ctx context.Context, key string) int {
	slot, err := r.Servers[0].Client.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return -1
	}
	//lint:ignore SA1019 SHARDS tells ports only, SLOTS what clients are told
	ranges, err := r.Servers[0].Client.ClusterSlots(ctx).Result() //nolint:staticcheck // as above
	if err != nil {
		return -1
	}
	for _, sr := range ranges {
		if int(slot) < sr.Start || int(slot) > sr.End || len(sr.Nodes) == 0 {
			continue
		}
		for i, proxy := range r.Proxies {
			if process.Port(sr.Nodes[0].Addr) == process.Port(proxy.Addr) {
				return i
			}
		}
	}
	return -1
}

// Set makes the same fault on all proxies.
func (r *Redis) Set(t NetworkFault) {
	for _, d := range r.Proxies {
		d.Set(t)
	}
}

// connections is how many all proxies have accepted.
func (r *Redis) connections() (n int) {
	for _, d := range r.Proxies {
		n += d.Connections()
	}
	return n
}

// url is redis.url of gateway number i.
func (r *Redis) url(i int) string {
	who := url.UserPassword(redisUser, redisPassword).String() + "@"
	addrs := func(all []string) string { return strings.Join(all, ",") }
	var list []string
	switch r.Topology {
	case Standalone:
		return "redis://" + who + r.Proxies[i].Addr + "/0"
	case Sentinel:
		for _, s := range r.Sentinels {
			list = append(list, s.Addr)
		}
		return "redis+sentinel://" + who + addrs(list) + "/" + masterName
	}
	for _, d := range r.Proxies {
		list = append(list, d.Addr)
	}
	return "redis+cluster://" + who + addrs(list)
}

// stop ends everything; sentinels first, so that they fail nothing over.
func (r *Redis) stop() error {
	var errs []error
	for _, s := range append(r.Sentinels, r.Servers...) {
		errs = append(errs, s.Stop())
	}
	for _, d := range r.Proxies {
		d.Close()
	}
	return errors.Join(errs...)
}
