package compose

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// containers is a stage whose services run in containers, beside whatever else runs on the machine: it has a project name,
// image names and secrets of its own, and ports that the system picks.
type containers struct {
	*stage
	file     string // the compose file
	override string // one over it
}

func newContainers(t *testing.T, file string) *containers {
	t.Helper()
	c := &containers{stage: emptyStage(t), file: file}
	c.project = load(t, nil, file)
	c.waits = 90 * time.Second // Prometheus computes a group of rules each minute, for the first time within one
	c.overrideFile(t)
	return c
}

// stamp is that of the images that are built; they are removed at the end.
const stamp = "smoke"

// docker runs a command and returns what it prints on stdout. COMPOSE is how Compose v2 is started.
func (c *containers) docker(ctx context.Context, args ...string) (string, error) {
	if args[0] == "compose" {
		files := []string{"-p", c.project.Name + "-smoke", "-f", c.file, "-f", c.override}
		args = slices.Concat(strings.Fields(os.Getenv("COMPOSE")), files, args[1:])
	} else {
		args = append([]string{"docker"}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var said strings.Builder
	cmd.Dir, cmd.Env, cmd.Stderr = c.project.WorkingDir, append(os.Environ(), "VERSION="+stamp), &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%q: %w: %s%s", args, err, out, said.String()[max(0, said.Len()-4000):])
	}
	return strings.TrimSpace(string(out)), err
}

func (c *containers) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.docker(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// overrideFile is what differs from the file as it is: secrets, ports, and a limit of open files that this machine may give.
func (c *containers) overrideFile(t *testing.T) {
	t.Helper()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	services, secrets := map[string]any{}, map[string]any{}
	for name, s := range c.project.Services {
		service := map[string]any{}
		var ports []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprintf("127.0.0.1::%d", p.Target))
		}
		if ports != nil {
			service["ports"] = ports
		}
		if limit := s.Ulimits["nofile"]; limit != nil && uint64(limit.Hard) > files.Max {
			service["ulimits"] = map[string]any{"nofile": map[string]uint64{"soft": files.Max, "hard": files.Max}}
		}
		services[name] = service
	}
	for name, s := range c.project.Secrets {
		secrets[name] = map[string]any{"file": filepath.Join(c.secrets, filepath.Base(s.File))}
	}
	text, err := yaml.Marshal(map[string]any{"services": services, "secrets": secrets})
	if err != nil {
		t.Fatal(err)
	}
	c.override = filepath.Join(c.dir, "override.yml")
	replaced := strings.ReplaceAll(string(text), "ports:\n", "ports: !override\n")
	if err := os.WriteFile(c.override, []byte(replaced), 0o600); err != nil {
		t.Fatal(err)
	}
}

// images gets those that are not built here, and returns the services that can be started.
func (c *containers) images(t *testing.T) []string {
	t.Helper()
	_, builder, _ := strings.Cut(read(t, filepath.Join(root(t), "Dockerfile")), "ARG GO_IMAGE=")
	builder, _, _ = strings.Cut(builder, "\n")
	wanted := []string{builder}
	for _, s := range c.project.Services {
		if s.Build == nil && len(s.Profiles) == 0 && !slices.Contains(wanted, s.Image) {
			wanted = append(wanted, s.Image)
		}
	}
	need := exec.CommandContext(t.Context(), filepath.Join(root(t), ".ci/need-images"), wanted...)
	need.Stderr = os.Stderr
	out, err := need.Output()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		image, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		there[image] = true
		if t.Log(image, kind); kind == "stand-in" {
			c.removed(t, image)
		}
	}
	var services []string
	for name, s := range c.project.Services {
		if there[s.Image] || s.Build != nil {
			services = append(services, name)
		}
	}
	return services
}

// removed removes an image at the end of the test.
func (c *containers) removed(t *testing.T, image string) {
	t.Cleanup(func() {
		if _, err := c.docker(context.WithoutCancel(t.Context()), "image", "rm", image); err != nil {
			t.Error(err)
		}
	})
}

// up starts services whose images are there, and takes them down with the test.
func (c *containers) up(t *testing.T, services ...string) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			logs, _ := c.docker(ctx, "compose", "logs", "--tail", "30")
			t.Log(logs)
		}
		if _, err := c.docker(ctx, "compose", "down", "-v", "--timeout", "10"); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	c.must(t, slices.Concat([]string{"compose", "up", "-d", "--no-build", "--wait", "--wait-timeout", "120"}, services)...)
	t.Logf("%d services are up and healthy after %v", len(services), time.Since(began).Round(time.Second))
	c.look(t)
}

// look finds where the services' ports are now.
func (c *containers) look(t *testing.T) {
	t.Helper()
	for name, service := range c.project.Services {
		for _, p := range service.Ports {
			target := strconv.Itoa(int(p.Target))
			said, err := c.docker(t.Context(), "compose", "port", name, target)
			if err != nil {
				continue // it does not run
			}
			port, err := strconv.Atoi(said[strings.LastIndex(said, ":")+1:])
			if err != nil {
				t.Fatal(err)
			}
			c.ports[name+":"+target] = port
		}
	}
}

// stream asks for one, calls begun after its first event, and returns its last events.
func (c *containers) stream(t *testing.T, api string, key http.Header, begun func()) (events []string) {
	t.Helper()
	body := strings.Replace(chat("Tell me of the sea, at length.", true), `"max_tokens":32`, `"max_tokens":400`, 1)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = key.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if events = append(events, data); len(events) == 1 {
			begun()
		}
	}
	return events
}

// serving is the replica that has a client's request.
func (c *containers) serving(t *testing.T) string {
	t.Helper()
	var name string
	c.eventually(t, "a replica has the request", func() bool {
		for _, g := range []string{"gateway-1", "gateway-2"} {
			if page := c.get(t, c.url(g+":9090", "/metrics"), c.bearer(t, "token-prometheus")); strings.Contains(page, "\nforegate_requests_in_flight 1\n") {
				name = g
			}
		}
		return name != ""
	})
	return name
}

// answers asks n different questions, and holds that each is answered.
func (c *containers) answers(t *testing.T, api string, key http.Header, n int) {
	t.Helper()
	for i := range n {
		r, err := c.ask(t.Context(), http.MethodPost, api, chat(fmt.Sprintf("%s, question %d?", t.Name(), i), false), key)
		if err != nil || r.status != http.StatusOK || !strings.Contains(r.body, `"finish_reason"`) {
			t.Errorf("question %d of %d: status %d, %v: %s", i+1, n, r.status, err, r.body)
		}
	}
}

// watched waits until every target is up and every rule has been computed without an error.
func (c *containers) watched(t *testing.T) {
	var said string
	c.eventually(t, "Prometheus' targets and rules are healthy", func() bool {
		var targets struct {
			Data struct {
				ActiveTargets []struct{ Health, ScrapeURL, LastError string }
			}
		}
		var rules struct {
			Data struct {
				Groups []struct {
					Rules []struct{ Name, Health, LastError string }
				}
			}
		}
		for path, into := range map[string]any{"/api/v1/targets": &targets, "/api/v1/rules": &rules} {
			if err := json.Unmarshal([]byte(c.get(t, c.url("prometheus:9090", path), nil)), into); err != nil {
				t.Fatal(err)
			}
		}
		up, computed := 0, 0
		said = ""
		for _, x := range targets.Data.ActiveTargets {
			if up++; x.Health != "up" {
				said += fmt.Sprintf("%+v\n", x)
			}
		}
		for _, g := range rules.Data.Groups {
			for _, r := range g.Rules {
				if computed++; r.Health != "ok" {
					said += fmt.Sprintf("%+v\n", r)
				}
			}
		}
		if up != 5 || computed < 20 {
			said += fmt.Sprintf("%d targets, %d rules", up, computed)
		}
		return said == ""
	}, func() string { return said })
}

// The whole of docker-compose.yml, in containers: make compose.
func TestTheComposeFileRunsInContainers(t *testing.T) {
	if os.Getenv("COMPOSE") == "" {
		t.Skip("it takes a Docker daemon: make compose")
	}
	c := newContainers(t, simulated)
	services := c.images(t)
	c.removed(t, "foregate:"+stamp)
	c.removed(t, "vllmsim:"+stamp)
	c.must(t, "compose", "build", "gateway-1", "draft-0")
	t.Run("the demo runs in one", func(t *testing.T) {
		d := newContainers(t, demo)
		d.up(t, "demo")
		d.answers(t, d.url("demo:8080", "/v1/chat/completions"), http.Header{}, 1)
		logs := d.must(t, "compose", "logs", "--no-log-prefix", "demo")
		if !strings.Contains(logs, "http://127.0.0.1:9090/console/#token=") {
			t.Errorf("it does not say where its console is:\n%s", logs)
		}
		if r, err := d.ask(t.Context(), http.MethodGet, d.url("demo:9090", "/metrics"), "", nil); err != nil || r.status != http.StatusUnauthorized {
			t.Errorf("without a token metrics are %d, %v", r.status, err)
		}
	})
	c.up(t, services...)
	api, key := c.url("balancer:8080", "/v1/chat/completions"), c.bearer(t, "api-key")
	t.Run("replicas meet in Redis", func(t *testing.T) { c.meet(t, c.bearer(t, "token-operator")) })
	t.Run("answers and streams come through the balancer", func(t *testing.T) { c.converse(t, api, key) })
	t.Run("Prometheus sees targets and rules", func(t *testing.T) { c.watched(t) })
	t.Run("a stream whose replica is stopped ends whole", func(t *testing.T) {
		stopped := make(chan error, 1)
		var name string
		events := c.stream(t, api, key, func() {
			name = c.serving(t)
			go func() {
				_, err := c.docker(t.Context(), "compose", "stop", name)
				stopped <- err
			}()
		})
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		if n := len(events); n < 100 || events[n-1] != "[DONE]" || strings.Contains(events[n-2], "error") {
			t.Errorf("%d events, at last %q", n, events[max(0, n-2):])
		}
		c.answers(t, api, key, 5)
		c.must(t, "compose", "up", "-d", "--no-build", "--wait", name)
	})
	t.Run("answers go on when Redis is killed", func(t *testing.T) {
		c.must(t, "compose", "kill", "redis", "redis-cache")
		c.answers(t, api, key, 20)
	})
}
