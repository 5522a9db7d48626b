package helm

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// inEveryVariant runs a check on what each variant renders.
func inEveryVariant(t *testing.T, check func(t *testing.T, d *deployment, docs []object)) {
	for name, values := range variants(t) {
		t.Run(name, func(t *testing.T) {
			docs, _ := rendered(t, values)
			check(t, only[*deployment](docs)[0], docs)
		})
	}
}

// finds tells whether a selector finds labels, and is no selector of everything.
func finds(t *testing.T, s *meta.LabelSelector, labels map[string]string) bool {
	t.Helper()
	sel, err := meta.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return !sel.Empty() && sel.Matches(labelSet(labels))
}

type labelSet map[string]string

func (l labelSet) Has(k string) bool              { _, ok := l[k]; return ok }
func (l labelSet) Get(k string) string            { return l[k] }
func (l labelSet) Lookup(k string) (string, bool) { v, ok := l[k]; return v, ok }

func TestSelectorsFindTheGatewaysPods(t *testing.T) {
	inEveryVariant(t, func(t *testing.T, d *deployment, docs []object) {
		pods := d.Spec.Template.Labels
		selectors := map[string]*meta.LabelSelector{"Deployment": d.Spec.Selector}
		for _, s := range only[*core.Service](docs) {
			selectors["Service "+s.Name] = &meta.LabelSelector{MatchLabels: s.Spec.Selector}
		}
		for _, p := range only[*policy.PodDisruptionBudget](docs) {
			selectors["PodDisruptionBudget"] = p.Spec.Selector
		}
		for _, n := range only[*networking.NetworkPolicy](docs) {
			selectors["NetworkPolicy"] = &n.Spec.PodSelector
		}
		for i, c := range d.Spec.Template.Spec.TopologySpreadConstraints {
			selectors["topologySpreadConstraints "+strconv.Itoa(i)] = c.LabelSelector
		}
		test := only[*core.Pod](docs)[0]
		for who, s := range selectors {
			if !finds(t, s, pods) {
				t.Errorf("%s does not find the pods", who)
			}
			if finds(t, s, test.Labels) {
				t.Errorf("%s finds the pod of helm test", who)
			}
		}
		for _, m := range only[*monitoring.ServiceMonitor](docs) {
			for _, s := range only[*core.Service](docs) {
				admin := slices.ContainsFunc(s.Spec.Ports, func(p core.ServicePort) bool { return p.Name == m.Spec.Endpoints[0].Port })
				if finds(t, &m.Spec.Selector, s.Labels) != admin {
					t.Errorf("the ServiceMonitor takes Service %s: %v, which has its port: %v", s.Name, !admin, admin)
				}
			}
		}
		for _, h := range only[*autoscaling.HorizontalPodAutoscaler](docs) {
			if h.Spec.ScaleTargetRef.Name != d.Name || d.Spec.Replicas != nil {
				t.Errorf("the autoscaler scales %s, and the Deployment %s has replicas %v", h.Spec.ScaleTargetRef.Name, d.Name, d.Spec.Replicas)
			}
		}
	})
}

// portsOf are the named ports of a pod.
func portsOf(p core.PodSpec) map[string]int32 {
	out := map[string]int32{}
	for _, c := range p.Containers {
		for _, port := range c.Ports {
			out[port.Name] = port.ContainerPort
		}
	}
	return out
}

func TestPortsThatAreNamedExist(t *testing.T) {
	inEveryVariant(t, func(t *testing.T, d *deployment, docs []object) {
		ports := portsOf(d.Spec.Template.Spec)
		known := func(who string, p intstr.IntOrString) {
			if _, ok := ports[p.StrVal]; p.Type == intstr.String && !ok {
				t.Errorf("%s names port %q; there are %v", who, p.StrVal, sortedKeys(ports))
			}
		}
		c := d.Spec.Template.Spec.Containers[0]
		for who, p := range map[string]*core.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
			if p == nil || p.HTTPGet == nil {
				t.Fatalf("no %s probe", who)
			}
			known(who, p.HTTPGet.Port)
			// Connections of clients fill the public port, never this one.
			path := map[bool]string{true: "/readyz", false: "/livez"}[who == "readiness"]
			if p.HTTPGet.Port.StrVal != "admin" || p.HTTPGet.Path != path || len(p.HTTPGet.HTTPHeaders) > 0 {
				t.Errorf("the %s probe asks %s of port %s", who, p.HTTPGet.Path, p.HTTPGet.Port.StrVal)
			}
		}
		services := map[string]bool{}
		for _, s := range only[*core.Service](docs) {
			for _, p := range s.Spec.Ports {
				known("Service "+s.Name, p.TargetPort)
				services[s.Name+" "+p.Name] = true
			}
		}
		for _, n := range only[*networking.NetworkPolicy](docs) {
			for _, in := range n.Spec.Ingress {
				for _, p := range in.Ports {
					known("NetworkPolicy", *p.Port)
				}
			}
		}
		for _, i := range only[*networking.Ingress](docs) {
			for _, r := range i.Spec.Rules {
				b := r.HTTP.Paths[0].Backend.Service
				if !services[b.Name+" "+b.Port.Name] {
					t.Errorf("the Ingress leads to %s %s; there are %v", b.Name, b.Port.Name, sortedKeys(services))
				}
			}
		}
	})
}

// outside are the Secrets and ConfigMaps that an operator makes, by variant's values.
var outside = []string{
	"foregate-admin-tokens", "foregate-seal-keys", "foregate-metrics-token", "foregate-metrics", "foregate-redis", "foregate-tls",
	"my-foregate", "my-tokens", "my-seals", "my-tenants", "redis-ca", "registry",
}

func TestWhatIsMountedExistsOrIsTheOperators(t *testing.T) {
	inEveryVariant(t, func(t *testing.T, d *deployment, docs []object) {
		keys := map[string][]string{}
		for _, s := range only[*core.Secret](docs) {
			keys[s.Name] = slices.Concat(sortedKeys(s.StringData), sortedKeys(s.Data))
		}
		pod := d.Spec.Template.Spec
		volumes := map[string]bool{}
		keeps := "" // the file of the configuration that a pod keeps
		for _, v := range pod.Volumes {
			volumes[v.Name] = true
			switch {
			case v.Secret != nil:
				made, ok := keys[v.Secret.SecretName]
				if v.Name == "config" && ok {
					keeps = "foregate.yaml"
				}
				if !ok && !slices.Contains(outside, v.Secret.SecretName) {
					t.Errorf("volume %s is of the Secret %s, which nobody makes", v.Name, v.Secret.SecretName)
				}
				for _, i := range v.Secret.Items {
					if ok && !slices.Contains(made, i.Key) {
						t.Errorf("volume %s wants the key %s of %s, which has %v", v.Name, i.Key, v.Secret.SecretName, made)
					}
				}
				if *v.Secret.DefaultMode&0o007 != 0 {
					t.Errorf("volume %s may be read by everybody: %o", v.Name, *v.Secret.DefaultMode)
				}
			case v.ConfigMap == nil || !slices.Contains(outside, v.ConfigMap.Name):
				t.Errorf("volume %s is of nothing known", v.Name)
			}
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			// What is mounted by subPath never changes while the pod lives. The chart's own configuration must not, so that a wrong one
			// reaches new pods only; of all else nothing could be rotated.
			want := ""
			if m.Name == "config" {
				want = keeps
			}
			if !volumes[m.Name] || !m.ReadOnly || m.SubPath+m.SubPathExpr != want {
				t.Errorf("mount %s: exists %v, read-only %v, subPath %q", m.Name, volumes[m.Name], m.ReadOnly, m.SubPath+m.SubPathExpr)
			}
			delete(volumes, m.Name)
		}
		if len(volumes) > 0 {
			t.Errorf("volumes that nothing mounts: %v", sortedKeys(volumes))
		}
		accounts := []string{"default"}
		for _, a := range only[*core.ServiceAccount](docs) {
			accounts = append(accounts, a.Name)
		}
		if !slices.Contains(accounts, pod.ServiceAccountName) || *pod.AutomountServiceAccountToken {
			t.Errorf("service account %s of %v, mounted %v", pod.ServiceAccountName, accounts, *pod.AutomountServiceAccountToken)
		}
		for _, m := range only[*monitoring.ServiceMonitor](docs) {
			c := m.Spec.Endpoints[0].Authorization.Credentials
			if !slices.Contains(keys[c.Name], c.Key) && !slices.Contains(outside, c.Name) {
				t.Errorf("Prometheus shows the key %s of %s; there are %v", c.Key, c.Name, keys)
			}
		}
	})
}

func TestAnUpdateLosesNoReplicaAndABudgetLeavesRoom(t *testing.T) {
	inEveryVariant(t, func(t *testing.T, d *deployment, docs []object) {
		u := d.Spec.Strategy.RollingUpdate
		if u.MaxUnavailable.IntValue() != 0 || u.MaxSurge.IntValue() < 1 {
			t.Errorf("rolling update: %+v", u)
		}
		least := int32(1)
		if d.Spec.Replicas != nil {
			least = *d.Spec.Replicas
		}
		for _, h := range only[*autoscaling.HorizontalPodAutoscaler](docs) {
			least = *h.Spec.MinReplicas
		}
		for _, p := range only[*policy.PodDisruptionBudget](docs) {
			if n := p.Spec.MaxUnavailable.IntValue(); n < 1 || n >= int(least) {
				t.Errorf("%d of %d replicas may be away", n, least)
			}
		}
	})
}

// configFile is foregate.yaml as it is rendered, nil where it is the operator's own.
func configFile(t *testing.T, docs []object) (text string, file map[string]any) {
	t.Helper()
	for _, s := range only[*core.Secret](docs) {
		if text, ok := s.StringData["foregate.yaml"]; ok {
			if err := yaml.UnmarshalStrict([]byte(text), &file); err != nil {
				t.Fatal(err)
			}
			return text, file
		}
	}
	return "", nil
}

func TestKubernetesWaitsLongerThanTheGatewayDrains(t *testing.T) {
	inEveryVariant(t, func(t *testing.T, d *deployment, docs []object) {
		// The gateway itself accepts for a while after SIGTERM: a hook that sleeps would only take of its time.
		if d.Spec.Template.Spec.Containers[0].Lifecycle != nil {
			t.Error("there is a hook before SIGTERM")
		}
		_, file := configFile(t, docs)
		if file == nil {
			return
		}
		drain := file["drain"].(map[string]any)
		var sum time.Duration
		for _, name := range []string{"delay", "grace"} {
			v, err := time.ParseDuration(drain[name].(string))
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
		if got := time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second; got < sum+5*time.Second || got > sum+time.Minute {
			t.Errorf("killed after %s, drained after %s", got, sum)
		}
	})
}

func TestTheNetworkPolicyLeavesOpenWhatTheFileNames(t *testing.T) {
	docs, _ := rendered(t, variants(t)["full"])
	n := only[*networking.NetworkPolicy](docs)[0]
	var got [][]int
	for _, e := range n.Spec.Egress {
		var ports []int
		for _, p := range e.Ports {
			ports = append(ports, p.Port.IntValue())
		}
		slices.Sort(ports)
		got = append(got, ports)
		if len(e.To) == 0 {
			t.Errorf("ports %v are open to everywhere", ports)
		}
	}
	// dns; pools: http, https, srv's and dns' ports; Redis: of each host, of the servers behind
	// Sentinels, and the extra one; the collector.
	want := [][]int{{53, 53}, {80, 443, 8000, 8001}, {6379, 6380, 6390, 26379}, {4318}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("egress to %v, want %v", got, want)
	}
	in := map[string]int{}
	for _, i := range n.Spec.Ingress {
		in[i.Ports[0].Port.StrVal] = len(i.From)
	}
	if !maps.Equal(in, map[string]int{"http": 2, "admin": 2}) {
		t.Errorf("ingress by port and number of peers: %v", in)
	}
}

func TestPodsAreReplacedWhenTheFileChangesAndNotForASecret(t *testing.T) {
	pods := func(more string) (pod core.PodTemplateSpec, secrets map[string]map[string]string) {
		docs, _ := rendered(t, with(t, variants(t)["full"], more))
		secrets = map[string]map[string]string{}
		for _, s := range only[*core.Secret](docs) {
			secrets[s.Name] = s.StringData
			for k, v := range s.Data {
				secrets[s.Name] = map[string]string{k: string(v)}
			}
		}
		return only[*apps.Deployment](docs)[0].Spec.Template, secrets
	}
	base, before := pods("{}")
	if again, _ := pods("{}"); !reflect.DeepEqual(again, base) {
		t.Errorf("the same values give %v, then %v", base, again)
	}
	if now, _ := pods("config: {limits: {in_flight: 1000}}"); reflect.DeepEqual(now, base) {
		t.Error("another file replaces no pod")
	}
	// These are read again when they change: a restart would cut streams for nothing.
	const letters = "abcdef0123456789abcdef0123456789"
	for more, which := range map[string]string{
		"adminTokens: {value: ann operate " + letters + "}":                      "llm-gateway-admin-tokens",
		"sealKeys: {value: k3 " + letters + "}":                                  "llm-gateway-seal-keys",
		"secretFiles: {signers: {values: {keys: k2 " + letters + "}}}":           "llm-gateway-file-signers",
		"config: {tenants: [{id: b, keys_sha256: [" + letters + letters + "]}]}": "llm-gateway-tenants",
	} {
		now, after := pods(more)
		if !reflect.DeepEqual(now, base) {
			t.Errorf("%s replaces pods", more)
		}
		if maps.Equal(after[which], before[which]) || len(after[which]) == 0 {
			t.Errorf("%s: the Secret %s stays %v", more, which, after[which])
		}
	}
}
