package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

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
	Proxies []*process.Proxy
}

const (
	masterName      = "fg"
	redisDown       = time.Second // until a sentinel, or the nodes of a cluster, call a server down
	clusterPatience = 20 * time.Second

	// The user that the gateways are at Redis. Everything may be done by it until a row
	// takes that away.
	redisUser     = "gateway"
	redisPassword = "chaos"
)

// Server is one redis-server that can die, freeze and come back at its address, with nothing of what it knew.
type Server struct {
	process.Service
	Addr   string        // its own
	Client *redis.Client // straight to it, as an administrator, with patience
}

// newServer makes one that does not run yet, with a folder below dir.
func newServer(dir, name, addr string, args ...string) (*Server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not in PATH: install redis-server")
	}
	s := &Server{Addr: addr, Client: adminClient(addr)}
	s.Name, s.Path, s.Args, s.Ready = name, path, args, s.answers
	return s, os.MkdirAll(filepath.Join(dir, name), 0o700)
}

// dataServer makes a server that holds data: with the gateways' user, and as a replica it does not wait for more replicas to
// come before it copies.
func dataServer(dir, name, addr string, more ...string) (*Server, error) {
	args := []string{
		"--bind", "127.0.0.1", "--port", process.Port(addr), "--dir", filepath.Join(dir, name), "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--enable-debug-command", "yes",
		"--user", redisUser, "on", ">" + redisPassword, "~*", "&*", "+@all", "--repl-diskless-sync-delay", "0",
	}
	return newServer(dir, name, addr, append(args, more...)...)
}

// adminClient is a client for the harness itself.
func adminClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
		DialTimeout: time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// answers reports whether it says anything to PING, be it that it is still loading.
func (s *Server) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := s.Client.Ping(ctx).Err()
	var reported redis.Error
	return err == nil || errors.As(err, &reported)
}

// do sends a command.
func (s *Server) do(ctx context.Context, args ...any) error {
	if err := s.Client.Do(ctx, args...).Err(); err != nil {
		return fmt.Errorf("%s: %v: %w", s.Name, args, err)
	}
	return nil
}

// Info is one field of INFO; "" when there is none.
func (s *Server) Info(ctx context.Context, field string) (string, error) {
	page, err := s.Client.Info(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("%s: INFO: %w", s.Name, err)
	}
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value, nil
		}
	}
	return "", nil
}

// startRedis starts a topology for so many gateways, in folders below dir. What it
// started before an error is in the result, to be stopped.
func startRedis(ctx context.Context, t Topology, dir string, gateways int) (*Redis, error) {
	r := &Redis{Topology: t}
	switch t {
	case Sentinel:
		return r, r.startSentinel(ctx, dir)
	case Cluster:
		return r, r.startCluster(ctx, dir)
	case Standalone:
	}
	s, err := startServer(ctx, dir, "redis")
	if s != nil {
		r.Servers = []*Server{s}
	}
	for range gateways {
		if err == nil {
			err = r.addProxy(s.Addr)
		}
	}
	return r, err
}

func (r *Redis) addProxy(addr string) error {
	proxy, err := process.NewProxy(addr, nil)
	if err == nil {
		r.Proxies = append(r.Proxies, proxy)
	}
	return err
}

// startServer starts a server that holds data, apart from a topology. Whoever starts one hands it to [Testbed.Adopt].
func startServer(ctx context.Context, dir, name string) (*Server, error) {
	addrs, err := process.FreeAddrs(1)
	if err != nil {
		return nil, err
	}
	s, err := dataServer(dir, name, addrs[0])
	if err != nil {
		return nil, err
	}
	return s, s.Start(ctx)
}

// add starts a server at a free address with a proxy before it. args may use the proxy's port.
func (r *Redis) add(ctx context.Context, dir, name string, args func(port string) []string) error {
	addrs, err := process.FreeAddrs(1)
	if err == nil {
		err = r.addProxy(addrs[0])
	}
	if err != nil {
		return err
	}
	s, err := dataServer(dir, name, addrs[0], args(process.Port(r.Proxies[len(r.Proxies)-1].Addr))...)
	if err != nil {
		return err
	}
	r.Servers = append(r.Servers, s)
	return s.Start(ctx)
}

// startSentinel starts master, replica and sentinels. All reach both servers through
// their proxies, so that a proxy can cut a server off from everybody.
func (r *Redis) startSentinel(ctx context.Context, dir string) error {
	for i := range 2 {
		err := r.add(ctx, dir, fmt.Sprintf("redis-%d", i), func(port string) []string {
			args := []string{"--replica-announce-ip", "127.0.0.1", "--replica-announce-port", port, "--repl-timeout", "5"}
			if i > 0 {
				args = append(args, "--replicaof", "127.0.0.1", process.Port(r.Proxies[0].Addr))
			}
			return args
		})
		if err != nil {
			return err
		}
	}
	addrs, err := process.FreeAddrs(3)
	if err != nil {
		return err
	}
	for i, addr := range addrs {
		name := fmt.Sprintf("sentinel-%d", i)
		conf := filepath.Join(dir, name+".conf") // a sentinel rewrites it
		s, err := newServer(dir, name, addr, conf, "--sentinel")
		if err != nil {
			return err
		}
		text := fmt.Sprintf(`bind 127.0.0.1
port %[1]s
dir %[5]s
sentinel monitor %[2]s 127.0.0.1 %[4]s 2
sentinel down-after-milliseconds %[2]s %[3]d
sentinel failover-timeout %[2]s 6000
`, process.Port(addr), masterName, redisDown.Milliseconds(), process.Port(r.Proxies[0].Addr), filepath.Join(dir, name))
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			return err
		}
		r.Sentinels = append(r.Sentinels, s)
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	return process.Poll(ctx, clusterPatience, func() bool { return r.sentinelsAgree(ctx) })
}

// sentinelsAgree reports whether every sentinel knows the other two and the replica.
func (r *Redis) sentinelsAgree(ctx context.Context) bool {
	for _, s := range r.Sentinels {
		c := redis.NewMapStringStringCmd(ctx, "sentinel", "master", masterName)
		if s.Client.Process(ctx, c) != nil || c.Val()["num-other-sentinels"] != "2" || c.Val()["num-slaves"] != "1" || c.Val()["flags"] != "master" {
			return false
		}
	}
	return true
}

// master is which of Servers the sentinels call the master, -1 when they do not agree on
// any.
func (r *Redis) master(ctx context.Context) int {
	found := -1
	for i, s := range r.Sentinels {
		c := redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", masterName)
		if s.Client.Process(ctx, c) != nil || len(c.Val()) != 2 {
			return -1
		}
		is := r.behind(c.Val()[1])
		if is < 0 || i > 0 && is != found {
			return -1
		}
		found = is
	}
	return found
}

// behind is which of Servers is behind the proxy with a port, -1: none.
func (r *Redis) behind(port string) int {
	for i, proxy := range r.Proxies {
		if process.Port(proxy.Addr) == port {
			return i
		}
	}
	return -1
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
		err := r.add(ctx, dir, fmt.Sprintf("node-%d", i), func(port string) []string {
			return []string{
				"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", process.Port(bus[i]),
				"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", port, "--cluster-announce-bus-port", process.Port(bus[i]),
				"--cluster-node-timeout", fmt.Sprint(redisDown.Milliseconds()), "--cluster-require-full-coverage", "no",
			}
		})
		if err != nil {
			return err
		}
	}
	for i, s := range r.Servers {
		err := errors.Join(s.do(ctx, "cluster", "addslotsrange", slotsFrom[i], slotsFrom[i+1]-1), s.do(ctx, "cluster", "set-config-epoch", i+1),
			r.Servers[0].do(ctx, "cluster", "meet", "127.0.0.1", process.PortNumber(s.Addr), process.PortNumber(bus[i])))
		if err != nil {
			return err
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

// holder is the server that has the slot of a key.
func (r *Redis) holder(ctx context.Context, key string) (int, error) {
	slot, err := r.Servers[0].Client.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return 0, err
	}
	//lint:ignore SA1019 SHARDS tells ports only, SLOTS what clients are told
	ranges, err := r.Servers[0].Client.ClusterSlots(ctx).Result() //nolint:staticcheck // as above
	if err != nil {
		return 0, err
	}
	for _, sr := range ranges {
		if int(slot) < sr.Start || int(slot) > sr.End || len(sr.Nodes) == 0 {
			continue
		}
		if i := r.behind(process.Port(sr.Nodes[0].Addr)); i >= 0 {
			return i, nil
		}
	}
	return 0, fmt.Errorf("no node has %s", key)
}

// Set makes the same fault on all proxies.
func (r *Redis) Set(t process.NetworkFault) {
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
	var list []string
	switch r.Topology {
	case Standalone:
		return "redis://" + who + r.Proxies[i].Addr + "/0"
	case Sentinel:
		for _, s := range r.Sentinels {
			list = append(list, s.Addr)
		}
		return "redis+sentinel://" + who + strings.Join(list, ",") + "/" + masterName
	case Cluster:
	}
	for _, d := range r.Proxies {
		list = append(list, d.Addr)
	}
	return "redis+cluster://" + who + strings.Join(list, ",")
}

// stop ends everything; sentinels first, so that they fail nothing over.
func (r *Redis) stop() error {
	var errs []error
	for _, s := range append(r.Sentinels, r.Servers...) {
		errs = append(errs, s.Stop())
		_ = s.Client.Close() // only connections are lost
	}
	for _, d := range r.Proxies {
		d.Close()
	}
	return errors.Join(errs...)
}
