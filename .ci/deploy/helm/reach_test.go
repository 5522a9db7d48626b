package helm

import (
	"net/netip"
	"testing"

	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// place is a pod, or an address outside of the cluster.
type place struct {
	namespace string
	labels    map[string]string
	address   string
	ports     map[string]int32 // by name, of a pod
}

// holds tells whether a peer of a policy in the namespace given is the place.
func (p place) holds(t *testing.T, peer networking.NetworkPolicyPeer, own string) bool {
	t.Helper()
	if peer.IPBlock != nil {
		in := func(cidr string) bool {
			return p.address != "" && netip.MustParsePrefix(cidr).Contains(netip.MustParseAddr(p.address))
		}
		for _, e := range peer.IPBlock.Except {
			if in(e) {
				return false
			}
		}
		return in(peer.IPBlock.CIDR)
	}
	if p.namespace == "" {
		return false
	}
	matches := func(s *meta.LabelSelector, labels map[string]string) bool {
		sel, err := meta.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		return sel.Matches(labelSet(labels))
	}
	if peer.NamespaceSelector == nil {
		return p.namespace == own && matches(peer.PodSelector, p.labels)
	}
	return matches(peer.NamespaceSelector, map[string]string{"kubernetes.io/metadata.name": p.namespace}) &&
		(peer.PodSelector == nil || matches(peer.PodSelector, p.labels))
}

// rule is one of a policy.
type rule struct {
	ports []networking.NetworkPolicyPort
	peers []networking.NetworkPolicyPeer
}

// way is from one place to a port of another.
type way struct {
	from, to place
	port     int32
}

// lets tells whether a rule names the port of a way and, among its peers, the place at its other end, as seen from
// the namespace given. No peers are all.
func (r rule) lets(t *testing.T, w way, other place, own string) bool {
	t.Helper()
	named := len(r.ports) == 0
	for _, p := range r.ports {
		n := p.Port.IntVal
		if p.Port.Type == intstr.String {
			n = w.to.ports[p.Port.StrVal]
		}
		named = named || n == w.port
	}
	if !named || len(r.peers) == 0 {
		return named
	}
	for _, p := range r.peers {
		if other.holds(t, p, own) {
			return true
		}
	}
	return false
}

// reaches tells whether policies let one place connect to a port of another: of each that they choose some
// policy must say so.
func reaches(t *testing.T, policies []*networking.NetworkPolicy, w way) bool {
	t.Helper()
	open := func(at place, kind networking.PolicyType, says func(networking.NetworkPolicySpec) bool) bool {
		chosen := false
		for _, n := range policies {
			s, err := meta.LabelSelectorAsSelector(&n.Spec.PodSelector)
			if err != nil {
				t.Fatal(err)
			}
			if at.namespace == "" || n.Namespace != at.namespace || !s.Matches(labelSet(at.labels)) {
				continue
			}
			for _, k := range n.Spec.PolicyTypes {
				chosen = chosen || k == kind
			}
			if says(n.Spec) {
				return true
			}
		}
		return !chosen
	}
	return open(w.from, networking.PolicyTypeEgress, func(s networking.NetworkPolicySpec) bool {
		for _, e := range s.Egress {
			if (rule{e.Ports, e.To}).lets(t, w, w.to, w.from.namespace) {
				return true
			}
		}
		return false
	}) && open(w.to, networking.PolicyTypeIngress, func(s networking.NetworkPolicySpec) bool {
		for _, i := range s.Ingress {
			if (rule{i.Ports, i.From}).lets(t, w, w.from, w.to.namespace) {
				return true
			}
		}
		return false
	})
}

// cluster are the policies of the chart's defaults and of all manifests, but for those named, and the places.
func cluster(t *testing.T, values string, without ...string) ([]*networking.NetworkPolicy, map[string]place) {
	t.Helper()
	docs, _ := rendered(t, with(t, nil, values))
	gateway := only[*deployment](docs)[0].Spec.Template
	var policies []*networking.NetworkPolicy
	for _, n := range only[*networking.NetworkPolicy](docs) {
		n.Namespace = namespace // Helm's
		policies = append(policies, n)
	}
	manifests := manifest(t)
	for _, n := range only[*networking.NetworkPolicy](manifests) {
		left := false
		for _, w := range without {
			left = left || n.Name == w
		}
		if !left {
			policies = append(policies, n)
		}
	}
	engine := workloads(manifests)[0].pod
	return policies, map[string]place{
		"gateway":    {namespace: namespace, labels: gateway.Labels, ports: portsOf(gateway.Spec)},
		"engine":     {namespace: "vllm", labels: engine.Labels, ports: portsOf(engine.Spec)},
		"other":      {namespace: "vllm", labels: map[string]string{"app": "miner"}},
		"prometheus": {namespace: "monitoring", labels: map[string]string{"app.kubernetes.io/name": "prometheus"}},
		"grafana":    {namespace: "monitoring", labels: map[string]string{"app.kubernetes.io/name": "grafana"}},
		"dns":        {namespace: "kube-system", labels: map[string]string{"k8s-app": "kube-dns"}},
		"redis":      {namespace: "redis", labels: map[string]string{"app": "redis"}},
		"stranger":   {namespace: "default", labels: map[string]string{"app": "web"}},
		"neighbour":  {namespace: namespace, labels: map[string]string{"app": "web"}},
		"metadata":   {address: "169.254.169.254"},
		"metadata6":  {address: "fd00:ec2::254"},
		"node":       {address: "10.0.0.7"},
		"internet":   {address: "203.0.113.7"},
		"client":     {address: "198.51.100.9"},
	}
}

func TestByDefaultOnlyWhoMustReachesWhom(t *testing.T) {
	policies, places := cluster(t, `
config: {redis: {url: "redis://redis.redis.svc"}}
networkPolicy: {redis: {to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: redis}}}]}}
`, "hub")
	type named struct {
		from, to string
		port     int32
	}
	open := map[named]bool{
		{"gateway", "engine", 8000}: true, {"gateway", "dns", 53}: true, {"gateway", "redis", 6379}: true,
		{"engine", "dns", 53}: true, {"engine", "gateway", 9090}: true, // leave.sh
		{"prometheus", "gateway", 9090}: true, {"prometheus", "engine", 8000}: true,
		{"gateway", "redis", 26379}: false, // there are no Sentinels in the URL
		{"redis", "dns", 53}:        true,
	}
	// Of the others nobody here has a policy.
	ruled := map[string]bool{"gateway": true, "engine": true, "other": true, "redis": true}
	for from := range places {
		for to := range places {
			for _, port := range []int32{53, 80, 443, 6379, 8000, 8080, 9090, 26379} {
				if !ruled[from] && !ruled[to] {
					continue
				}
				among := from == "redis" && to == "redis" // its replicas and its bus
				if got := reaches(t, policies, way{places[from], places[to], port}); got != (open[named{from, to, port}] || among) {
					t.Errorf("%s reaches %s at port %d: %v", from, to, port, got)
				}
			}
		}
	}
}
