package compose

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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
