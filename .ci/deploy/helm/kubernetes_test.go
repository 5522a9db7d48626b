package helm

import (
	"cmp"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const manifests = repository + "/deploy/kubernetes"

// manifest are the documents of all manifests; values of other charts are none.
func manifest(t *testing.T) []object {
	t.Helper()
	var out []object
	err := filepath.WalkDir(manifests, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".values.yaml") {
			return err
		}
		data, err := os.ReadFile(path)
		out = append(out, objectsIn(t, path, data)...)
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("%d manifests: %v", len(out), err)
	}
	return out
}

// workload is a pool's Deployment or StatefulSet.
type workload struct {
	kind, name string
	selector   *meta.LabelSelector
	pod        core.PodTemplateSpec
}

func workloads(docs []object) []workload {
	var out []workload
	for _, d := range only[*apps.Deployment](docs) {
		out = append(out, workload{"Deployment", d.Name, d.Spec.Selector, d.Spec.Template})
	}
	for _, s := range only[*apps.StatefulSet](docs) {
		out = append(out, workload{"StatefulSet", s.Name, s.Spec.Selector, s.Spec.Template})
	}
	return out
}

func TestTheManifestsAreOnesThatKubernetesTakes(t *testing.T) {
	docs := manifest(t)
	if n := len(workloads(docs)); n != 2 {
		t.Errorf("%d pools, want draft and target", n)
	}
	for _, d := range docs {
		if of := map[string]string{"redis": "redis"}[d.meta.Name]; d.kind != "Namespace" && d.meta.Namespace != cmp.Or(of, "vllm") {
			t.Errorf("%s %s is in the namespace %q", d.kind, d.meta.Name, d.meta.Namespace)
		}
	}
}

func TestEachPoolIsFoundByWhatStandsBeforeIt(t *testing.T) {
	docs := manifest(t)
	example, err := os.ReadFile(chartDir + "/files/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range workloads(docs) {
		if !finds(t, w.selector, w.pod.Labels) {
			t.Errorf("%s does not select its pods", w.name)
		}
		ports := portsOf(w.pod.Spec)
		var service, budget int
		for _, s := range only[*core.Service](docs) {
			if finds(t, &meta.LabelSelector{MatchLabels: s.Spec.Selector}, w.pod.Labels) {
				service++
				if s.Spec.ClusterIP != "None" || s.Name != w.name || ports[s.Spec.Ports[0].TargetPort.StrVal] != s.Spec.Ports[0].Port {
					t.Errorf("Service %s of %s: %+v", s.Name, w.name, s.Spec)
				}
			}
		}
		for _, p := range only[*policy.PodDisruptionBudget](docs) {
			if finds(t, p.Spec.Selector, w.pod.Labels) {
				budget++
			}
		}
		if service != 1 || budget != 1 {
			t.Errorf("%s: %d Services, %d budgets; want one each", w.name, service, budget)
		}
		if !strings.Contains(string(example), w.name+".vllm.svc.cluster.local") {
			t.Errorf("the chart's example does not look for %s", w.name)
		}
	}
}

// What the gateway relies on, and what an engine cannot do without; docs/guides/engines.md says why of each.
func TestEnginesRunWithWhatTheGatewayNeeds(t *testing.T) {
	for _, w := range workloads(manifest(t)) {
		c := w.pod.Spec.Containers[0]
		flags, env := map[string]string{}, map[string]string{}
		for _, arg := range c.Args {
			name, value, _ := strings.Cut(arg, "=")
			flags[name] = value
		}
		for _, e := range c.Env {
			env[e.Name] = e.Value
		}
		for name, want := range map[string]string{
			"--logprobs-mode": "raw_logprobs", "--max-logprobs": "20", "--scheduling-policy": "priority", "--generation-config": "vllm",
			"--allowed-media-domains": "media.invalid", "--enable-prefix-caching": "", "--enable-chunked-prefill": "",
		} {
			if got, ok := flags[name]; !ok || got != want {
				t.Errorf("%s runs with %s %q, want %q", w.name, name, got, want)
			}
		}
		for _, name := range []string{"--quantization", "--kv-cache-dtype", "--speculative-config"} {
			if value, ok := flags[name]; ok {
				t.Errorf("%s changes the logprobs that drafts are judged by: %s %s", w.name, name, value)
			}
		}
		if env["OMP_NUM_THREADS"] != "1" || env["NCCL_DEBUG"] != "WARN" {
			t.Errorf("%s: %q threads in each process, NCCL tells %q", w.name, env["OMP_NUM_THREADS"], env["NCCL_DEBUG"])
		}
		seqs, err := strconv.Atoi(flags["--max-num-seqs"])
		if err != nil || seqs < 16 || seqs > 256 {
			t.Errorf("%s: %q requests at once", w.name, flags["--max-num-seqs"])
		}
		gpus := c.Resources.Limits["nvidia.com/gpu"]
		if tp := cmp.Or(flags["--tensor-parallel-size"], "1"); tp != gpus.String() {
			t.Errorf("%s runs on %s GPUs and has %s", w.name, tp, gpus.String())
		}
		// The API server, the scheduler, and a worker for each GPU.
		if cores := c.Resources.Requests.Cpu().Value(); cores < 2+gpus.Value() {
			t.Errorf("%s has %d cores for %d processes", w.name, cores, 2+gpus.Value())
		}
	}
}

// The metrics are named as engines name them.
func TestQueriesNameMetricsThatEnginesHave(t *testing.T) {
	addr := freeAddress(t)
	process(t, "http://"+addr+"/metrics", "vllmsim", "--listen", addr)
	page := get(t, "http://"+addr+"/metrics")
	for _, f := range []string{"/keda/scaledobjects.yaml", "/hpa/prometheus-adapter.values.yaml", "/pools/leave.yaml"} {
		data, err := os.ReadFile(manifests + f)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`vllm:[a-z_]+[a-z]`).FindAllString(strings.NewReplacer("(running|waiting)", "waiting").Replace(string(data)), -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", f)
		}
		for _, n := range names {
			if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(n) + `[{ ]`).MatchString(page) {
				t.Errorf("%s: no engine has %s", f, n)
			}
		}
	}
}

// leave runs the hook of leave.yaml as a pod would.
func leave(t *testing.T, env ...string) (took time.Duration, log string) {
	t.Helper()
	for _, tool := range []string{"sh", "curl", "awk"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
	dir := t.TempDir()
	script := only[*core.ConfigMap](manifest(t))[0].Data["leave.sh"]
	for name, text := range map[string]string{"leave.sh": script, "token": drainToken + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", filepath.Join(dir, "leave.sh"))
	cmd.Env = append(os.Environ(), append(env, "TOKEN_FILE="+filepath.Join(dir, "token"), "SETTLE=0")...)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the hook failed: %v\n%s", err, out)
	}
	return time.Since(start), string(out)
}

func TestAPodThatLeavesTellsTheGatewayAndGoesWhenItIsIdle(t *testing.T) {
	addr := freeAddress(t)
	process(t, "http://"+addr+"/metrics", "vllmsim", "--listen", addr)
	admin := startGateway(t, "http://"+addr)
	took, log := leave(t, "GATEWAY="+admin, "ENGINE=http://"+addr, "BACKEND="+addr, "POOL=draft", "FOR=3m", "WAIT=60")
	if log != "" {
		t.Error(log)
	}
	if took > 30*time.Second {
		t.Errorf("an idle engine left after %s", took)
	}
	if page := get(t, admin+"/admin/backends"); !strings.Contains(page, `"state":"drained"`) || !strings.Contains(page, "spot notice") {
		t.Error(page)
	}
}

// What Prometheus has, and what engines have, is good for nothing else.
func TestATokenOfOneScopeIsRefusedForAnother(t *testing.T) {
	admin := startGateway(t, "http://127.0.0.1:1")
	for _, c := range []struct {
		method, path, token string
		status              int
	}{
		{"POST", "/admin/drain?backend=127.0.0.1:1&for=1s", drainToken, 200},
		{"POST", "/admin/drain?backend=127.0.0.1:1&for=1s", metricsToken, 403},
		{"POST", "/admin/settings", drainToken, 403},
		{"POST", "/admin/cache/purge", drainToken, 403},
		{"GET", "/metrics", metricsToken, 200},
		{"POST", "/admin/drain?backend=127.0.0.1:1&for=1s", "nobody's", 401},
		{"GET", "/livez", "", 200},
	} {
		req, err := http.NewRequest(c.method, admin+c.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s %s: status %d, want %d", c.method, c.path, resp.StatusCode, c.status)
		}
	}
}
