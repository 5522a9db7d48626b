package helm

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// breaches are what a pod has that the standard "restricted" of Kubernetes does not allow, and what it
// could write to that it need not.
func breaches(p core.PodSpec) []string {
	var out []string
	add := func(bad bool, format string, args ...any) {
		if bad {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	s := p.SecurityContext
	if s == nil {
		s = &core.PodSecurityContext{}
	}
	add(p.HostNetwork || p.HostPID || p.HostIPC, "a namespace of the host")
	add(s.RunAsNonRoot == nil || !*s.RunAsNonRoot, "may run as root")
	add(s.RunAsUser == nil || *s.RunAsUser == 0, "runs as root, or as the image says")
	add(s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault, "any system call")
	add(p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken, "the cluster's token")
	for _, v := range p.Volumes {
		add(v.Secret == nil && v.ConfigMap == nil && v.EmptyDir == nil, "volume %s", v.Name)
	}
	for _, c := range slices.Concat(p.Containers, p.InitContainers) {
		s := c.SecurityContext
		if s == nil {
			s = &core.SecurityContext{}
		}
		add(s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation, "%s may gain privileges", c.Name)
		add(s.Privileged != nil && *s.Privileged, "%s is privileged", c.Name)
		caps := s.Capabilities
		add(caps == nil || !slices.Equal(caps.Drop, []core.Capability{"ALL"}) || len(caps.Add) > 0, "%s has capabilities", c.Name)
		add(s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem, "%s may write to its image", c.Name)
		add(s.RunAsUser != nil || s.RunAsNonRoot != nil || s.SeccompProfile != nil, "%s says otherwise than its pod", c.Name)
		for _, port := range c.Ports {
			add(port.HostPort != 0, "%s has port %d of the host", c.Name, port.HostPort)
		}
	}
	return out
}

func TestPodsKeepToTheRestrictedStandard(t *testing.T) {
	inEveryVariant(t, func(t *testing.T, d *deployment, docs []object) {
		for who, p := range map[string]core.PodSpec{"gateway": d.Spec.Template.Spec, "test": only[*core.Pod](docs)[0].Spec} {
			if bad := breaches(p); len(bad) > 0 {
				t.Errorf("%s: %q", who, bad)
			}
		}
	})
	for _, w := range workloads(manifest(t)) {
		if bad := breaches(w.pod.Spec); len(bad) > 0 {
			t.Errorf("%s: %q", w.name, bad)
		}
	}
}

func TestNamespacesHoldPodsToTheRestrictedStandard(t *testing.T) {
	held := map[string]string{}
	for _, n := range only[*core.Namespace](manifest(t)) {
		held[n.Name] = n.Labels["pod-security.kubernetes.io/enforce"]
	}
	for _, name := range []string{namespace, "vllm"} {
		if held[name] != "restricted" {
			t.Errorf("the namespace %s enforces %q", name, held[name])
		}
	}
}

// vLLM takes an empty list of domains for all of them.
func TestEnginesFetchNothingThatARequestNames(t *testing.T) {
	for _, w := range workloads(manifest(t)) {
		c := w.pod.Spec.Containers[0]
		if !slices.Contains(c.Args, "--allowed-media-domains=media.invalid") {
			t.Errorf("%s fetches media of any domain: %q", w.name, c.Args)
		}
		if !slices.ContainsFunc(c.Env, func(e core.EnvVar) bool { return e.Name == "VLLM_MEDIA_URL_ALLOW_REDIRECTS" && e.Value == "0" }) {
			t.Errorf("%s follows redirects", w.name)
		}
		for _, a := range c.Args {
			if strings.HasPrefix(a, "--allowed-local-media-path") || strings.HasPrefix(a, "--trust-remote-code") {
				t.Errorf("%s runs with %s", w.name, a)
			}
		}
	}
}

// Each reader of the admin listener has a Secret of its own, and nobody but the gateway the file with all.
func TestEachHasTheTokenOfItsScopeAlone(t *testing.T) {
	for _, w := range workloads(manifest(t)) {
		var secrets []string
		for _, v := range w.pod.Spec.Volumes {
			if v.Secret != nil {
				secrets = append(secrets, v.Secret.SecretName)
			}
		}
		if !slices.Equal(secrets, []string{"foregate-drain-token"}) {
			t.Errorf("%s mounts %q", w.name, secrets)
		}
	}
	data, err := os.ReadFile(chartDir + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		AdminTokens    struct{ ExistingSecret string }
		ServiceMonitor struct {
			Token struct{ ExistingSecret string }
		}
	}
	if err := yaml.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if v.AdminTokens.ExistingSecret != "foregate-admin-tokens" || v.ServiceMonitor.Token.ExistingSecret != "foregate-metrics-token" {
		t.Errorf("the gateway reads %s, Prometheus %s", v.AdminTokens.ExistingSecret, v.ServiceMonitor.Token.ExistingSecret)
	}
	files, err := filepath.Glob(manifests + "/*/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, f := range append(files, repository+"/docs/guides/kubernetes.md", repository+"/docker-compose.yml", repository+"/deploy/prometheus/prometheus.yml") {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(foregate-|secrets/)admin-token\b[^s-]`).Match(data) {
			t.Errorf("%s still knows the one token for everything", f)
		}
	}
}
