package compose

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

// each runs a check on every service of every variant.
func each(t *testing.T, check func(t *testing.T, p *types.Project, s types.ServiceConfig)) {
	for name, p := range variants(t) {
		for _, s := range p.Services {
			t.Run(name+"/"+s.Name, func(t *testing.T) { check(t, p, s) })
		}
	}
}

func TestEveryFileThatIsMountedExists(t *testing.T) {
	secrets := t.TempDir()
	makeSecrets(t, secrets)
	made := filepath.Join(root(t), "deploy/compose/secrets")
	for name, p := range variants(t) {
		for _, s := range p.Secrets {
			rel, err := filepath.Rel(made, s.File)
			if err != nil || strings.HasPrefix(rel, "..") {
				t.Errorf("%s: secret %s is %s, outside deploy/compose/secrets", name, s.Name, s.File)
				continue
			}
			if _, err := os.Stat(filepath.Join(secrets, rel)); err != nil {
				t.Errorf("%s: secrets.sh does not make %s", name, rel)
			}
		}
	}
	each(t, func(t *testing.T, p *types.Project, s types.ServiceConfig) {
		for _, v := range s.Volumes {
			switch v.Type {
			case types.VolumeTypeBind:
				if _, err := os.Stat(v.Source); err != nil {
					t.Errorf("%v", err)
				}
				if !v.ReadOnly {
					t.Errorf("%s may be written to", v.Source)
				}
			case types.VolumeTypeVolume:
				if _, ok := p.Volumes[v.Source]; !ok {
					t.Errorf("there is no volume %s", v.Source)
				}
			}
		}
		for _, use := range s.Secrets {
			if _, ok := p.Secrets[use.Source]; !ok {
				t.Errorf("there is no secret %s", use.Source)
			}
		}
	})
}

var pinned = regexp.MustCompile(`^[a-z0-9./-]+:v?[0-9]+\.[0-9]+[a-z0-9.-]*(@sha256:[0-9a-f]{64})?$`)

func TestImagesArePinnedOrBuiltHere(t *testing.T) {
	each(t, func(t *testing.T, _ *types.Project, s types.ServiceConfig) {
		switch {
		case s.Build == nil && !pinned.MatchString(s.Image):
			t.Errorf("image %q names no version", s.Image)
		case s.Build != nil && s.Image != s.Build.Target+":dev":
			t.Errorf("image %q is built as %s", s.Image, s.Build.Target)
		}
	})
}

func TestTheVersionIsStampedIntoWhatIsBuilt(t *testing.T) {
	p := load(t, []string{"VERSION=v1.2.3", "REVISION=abc"}, simulated)
	for _, s := range p.Services {
		if s.Build == nil {
			continue
		}
		for arg, want := range map[string]string{"VERSION": "v1.2.3", "REVISION": "abc"} {
			if got := s.Build.Args[arg]; got == nil || *got != want {
				t.Errorf("%s is built with %s=%v", s.Name, arg, got)
			}
		}
		if s.Image != s.Build.Target+":v1.2.3" {
			t.Errorf("%s is image %s", s.Name, s.Image)
		}
	}
}

func TestNothingListensBeyondTheMachine(t *testing.T) {
	taken := map[string]string{}
	p := variants(t)["simulated"]
	for _, s := range p.Services {
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s on %q", s.Name, port.Published, port.HostIP)
			}
			if other, ok := taken[port.Published]; ok {
				t.Errorf("port %s is that of %s and %s", port.Published, other, s.Name)
			}
			taken[port.Published] = s.Name
		}
	}
	if len(taken) != 5 {
		t.Errorf("%d ports, want those of the API, two admin listeners, Prometheus and Grafana", len(taken))
	}
	for name, internal := range map[string]bool{"front": false, "watch": false, "pools": true, "redis": true} {
		if got := p.Networks[name].Internal; got != internal {
			t.Errorf("network %s: internal is %v", name, got)
		}
	}
}

func TestContainersHaveNoMoreThanTheyNeed(t *testing.T) {
	each(t, func(t *testing.T, _ *types.Project, s types.ServiceConfig) {
		gpu := s.Deploy != nil // an engine maps the weights, and its threads are many
		switch {
		case s.Privileged, s.NetworkMode != "", s.Pid == "host", s.Ipc == "host", len(s.CapAdd) > 0:
			t.Error("has more than it needs")
		case !slices.Equal(s.CapDrop, []string{"ALL"}):
			t.Errorf("keeps capabilities: %v are dropped", s.CapDrop)
		case !slices.Contains(s.SecurityOpt, "no-new-privileges:true"):
			t.Error("may gain privileges")
		case !s.ReadOnly:
			t.Error("may write to its own image")
		case !gpu && (s.MemLimit == 0 || s.PidsLimit == 0):
			t.Errorf("has no bounds: memory %d, processes %d", s.MemLimit, s.PidsLimit)
		case len(s.Networks) == 0 || s.Networks["default"] != nil:
			t.Error("is in the default network")
		}
		want := "unless-stopped"
		if s.Name == "traffic" {
			want = "no"
		}
		if s.Restart != want {
			t.Errorf("restart is %q, want %q", s.Restart, want)
		}
	})
}

// secretName is what a variable with a secret in it would be called; one that ends in _FILE or _PATH
// says where it is.
var secretName = regexp.MustCompile(`(?i)(PASS|SECRET|TOKEN|KEY|AUTH)`)

func TestNoSecretIsInAnEnvironmentOrAnArgument(t *testing.T) {
	const compose = "deploy/compose/"
	secrets := t.TempDir()
	makeSecrets(t, secrets)
	entries, err := os.ReadDir(secrets)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if text := strings.TrimSpace(read(t, filepath.Join(secrets, entry.Name()))); len(text) == 64 {
			for _, f := range []string{simulated, real, compose + "foregate.yaml", compose + "tenants.yaml", compose + "haproxy.cfg"} {
				if strings.Contains(read(t, filepath.Join(root(t), f)), text) {
					t.Errorf("%s holds the %s", f, entry.Name())
				}
			}
		}
	}
	each(t, func(t *testing.T, _ *types.Project, s types.ServiceConfig) {
		for name, value := range s.Environment {
			if secretName.MatchString(name) && !strings.HasSuffix(name, "_FILE") && !strings.HasSuffix(name, "_PATH") {
				t.Errorf("%s=%v", name, value)
			}
		}
	})
}

func TestSecretsAreMadeOnceAndFitTogether(t *testing.T) {
	dir := t.TempDir()
	makeSecrets(t, dir)
	before := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		before[entry.Name()] = read(t, filepath.Join(dir, entry.Name()))
	}
	makeSecrets(t, dir)
	for name, text := range before {
		if read(t, filepath.Join(dir, name)) != text {
			t.Errorf("%s is another when it is made again", name)
		}
	}
	for _, name := range []string{"users.acl", "tenants.yaml", "admin-tokens"} {
		if words := regexp.MustCompile(`[A-Z0-9]+-OF-|-PASSWORD|API-KEY`).FindAllString(before[name], -1); words != nil {
			t.Errorf("%s still has %v", name, words)
		}
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is open to others: %v", info.Mode())
	}
}

// Each has what it shows or checks, and nobody but the gateways the file with all tokens.
func TestEachHasTheTokenOfItsScopeAlone(t *testing.T) {
	dir := t.TempDir()
	makeSecrets(t, dir)
	scopes := map[string]string{}
	for line := range strings.Lines(read(t, filepath.Join(dir, "admin-tokens"))) {
		words := strings.Fields(line)
		if len(words) != 3 || len(words[2]) != 64 {
			t.Fatalf("not NAME SCOPES SECRET: %d words", len(words))
		}
		scopes[words[2]] = words[1]
	}
	if got := scopes[read(t, filepath.Join(dir, "token-prometheus"))]; got != "metrics" {
		t.Errorf("Prometheus' token has the scopes %q", got)
	}
	if got := scopes[read(t, filepath.Join(dir, "token-operator"))]; !strings.Contains(got, "operate") {
		t.Errorf("the operator's token has the scopes %q", got)
	}
	tokens := []string{"admin-tokens", "token-operator", "token-prometheus"}
	want := map[string]string{"gateway-1": "admin-tokens", "gateway-2": "admin-tokens", "prometheus": "token-prometheus"}
	each(t, func(t *testing.T, _ *types.Project, s types.ServiceConfig) {
		var has []string
		for _, use := range s.Secrets {
			if slices.Contains(tokens, use.Source) {
				has = append(has, use.Source)
			}
		}
		if strings.Join(has, " ") != want[s.Name] {
			t.Errorf("has %q, wants %q", has, want[s.Name])
		}
	})
}

// Files that are read again when they change are written over: what is mounted is the file that was there.
func TestSecretsThatAreMadeAgainAreTheSameFiles(t *testing.T) {
	dir := t.TempDir()
	makeSecrets(t, dir)
	names := []string{"admin-tokens", "tenants.yaml", "seal-keys", "users.acl"}
	before := map[string]os.FileInfo{}
	for _, name := range names {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		before[name] = info
	}
	former := read(t, filepath.Join(dir, "admin-tokens"))
	if err := os.Remove(filepath.Join(dir, "token-operator")); err != nil {
		t.Fatal(err)
	}
	makeSecrets(t, dir)
	for _, name := range names {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || !os.SameFile(info, before[name]) {
			t.Errorf("%s is another file: %v", name, err)
		}
	}
	if read(t, filepath.Join(dir, "admin-tokens")) == former {
		t.Error("a token that was taken away is still in force")
	}
}

// programs are those that an image has for its health check, by the image's name.
var programs = map[string][]string{
	"foregate":         {"/usr/local/bin/foregate"}, // the Dockerfile's
	"haproxy":          {"wget"},                    // Alpine's busybox
	"redis":            {"redis-cli", "grep", "cat"},
	"prom/prometheus":  {"wget"}, // busybox
	"grafana/grafana":  {"wget"}, // Alpine's busybox
	"vllm/vllm-openai": {"python3"},
	"vllmsim":          nil,
	"grafana/k6":       nil,
}

func TestHealthIsAskedWithAProgramThatTheImageHas(t *testing.T) {
	each(t, func(t *testing.T, _ *types.Project, s types.ServiceConfig) {
		image, _, _ := strings.Cut(s.Image, ":")
		has, known := programs[image]
		switch {
		case !known:
			t.Fatalf("nobody said what %s has", image)
		case has == nil && s.HealthCheck != nil:
			t.Fatalf("%s has nothing to ask with", image)
		case has == nil:
			return
		case s.HealthCheck == nil:
			t.Fatal("nobody asks how it is")
		}
		h := s.HealthCheck
		program := h.Test[1]
		if h.Test[0] == "CMD-SHELL" {
			program = has[0]
			if !strings.Contains(h.Test[1], program) {
				t.Errorf("%q does not call %s", h.Test[1], program)
			}
		}
		if !slices.Contains(has, program) {
			t.Errorf("%s has no %s", image, program)
		}
		if h.Timeout == nil || h.Interval == nil || h.Retries == nil || h.StartPeriod == nil {
			t.Error("a health check without its times")
		} else if time.Duration(*h.Timeout) > time.Duration(*h.Interval) {
			t.Error("a health check that takes longer than its interval")
		}
	})
}

func TestWhoWaitsForAnotherWaitsForWhatItTells(t *testing.T) {
	each(t, func(t *testing.T, p *types.Project, s types.ServiceConfig) {
		for name, d := range s.DependsOn {
			other, err := p.GetService(name)
			if err != nil {
				t.Fatal(err)
			}
			if d.Condition == types.ServiceConditionHealthy && other.HealthCheck == nil {
				t.Errorf("waits for %s to be healthy, which nobody asks", name)
			}
			var shared bool
			for network := range s.Networks {
				_, ok := other.Networks[network]
				shared = shared || ok
			}
			if !shared {
				t.Errorf("waits for %s, and has no network in common", name)
			}
		}
	})
	for name, p := range variants(t) {
		for _, gateway := range []string{"gateway-1", "gateway-2"} {
			for _, needs := range []string{"redis", "redis-cache", "draft-0", "draft-1", "target-0"} {
				if _, ok := p.Services[gateway].DependsOn[needs]; !ok {
					t.Errorf("%s: %s does not wait for %s", name, gateway, needs)
				}
			}
			if _, ok := p.Services["balancer"].DependsOn[gateway]; !ok {
				t.Errorf("%s: the balancer does not wait for %s", name, gateway)
			}
		}
	}
}
