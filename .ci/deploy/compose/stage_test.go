package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

// listens says on which ports the containers' programs listen.
var listens = map[string][]string{
	"redis": {"6379"}, "redis-cache": {"6380"},
	"draft-0": {"8000"}, "draft-1": {"8000"}, "target-0": {"8000"},
	"gateway-1": {"8080", "9090"}, "gateway-2": {"8080", "9090"},
	"balancer": {"8080"}, "prometheus": {"9090"},
}

// entrypoints are those of images that are not built here.
var entrypoints = map[string][]string{"prom/prometheus": {"prometheus"}}

// stage runs services of the compose file as processes on loopback.
type stage struct {
	project *types.Project
	dir     string
	secrets string
	bin     string // where the programs built here are
	ports   map[string]int
	running map[string]*process
	client  *http.Client
	waits   time.Duration // for a condition
}

// process is a service that runs.
type process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{} // closed when it has
}

// need finds a program, without which a developer's run is skipped and CI's fails.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") != "":
		t.Fatalf("%s is not installed", name)
	default:
		t.Skipf("%s is not installed", name)
	}
	return ""
}

// emptyStage has the secrets, and nothing that runs.
func emptyStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{
		project: load(t, nil, simulated), dir: t.TempDir(), secrets: t.TempDir(), bin: t.TempDir(),
		ports: map[string]int{}, running: map[string]*process{},
		waits:  30 * time.Second,
		client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 16}},
	}
	makeSecrets(t, s.secrets)
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := emptyStage(t)
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", s.bin, "./cmd/foregate", "./cmd/vllmsim")
	build.Dir = root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for service, ports := range listens {
		for _, port := range ports {
			s.ports[service+":"+port] = freePort(t)
		}
	}
	return s
}

// freePort is one that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	var lc net.ListenConfig
	for range 100 {
		l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		if _, given := givenPorts.LoadOrStore(port, true); !given {
			return port
		}
	}
	t.Fatal("no free port that was not given before")
	return 0
}

// givenPorts are the ports that freePort returned: the system may offer one twice before its program listens.
var givenPorts sync.Map

func (s *stage) url(at, path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d%s", s.ports[at], path)
}

func (s *stage) secret(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(read(t, filepath.Join(s.secrets, name)))
}

// prepare lays what a service has mounted into a folder of its own, rewritten.
func (s *stage) prepare(t *testing.T, service types.ServiceConfig) *rewriter {
	t.Helper()
	r := &rewriter{service: service.Name, ports: s.ports, paths: map[string]string{}}
	from := map[string]string{}
	home := filepath.Join(s.dir, service.Name)
	at := func(target string) string { return filepath.Join(home, filepath.FromSlash(target)) }
	for _, v := range service.Volumes {
		r.paths[v.Target] = at(v.Target)
		if v.Type == types.VolumeTypeBind {
			from[v.Target] = v.Source
		} else if err := os.MkdirAll(at(v.Target), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range service.Tmpfs {
		r.paths[target] = at(target)
		if err := os.MkdirAll(at(target), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for _, use := range service.Secrets {
		r.paths[use.Target] = at(use.Target)
		from[use.Target] = filepath.Join(s.secrets, filepath.Base(s.project.Secrets[use.Source].File))
	}
	for target, source := range from {
		err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(source, path)
			if err != nil {
				return err
			}
			to := filepath.Join(at(target), rel)
			if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
				return err
			}
			return os.WriteFile(to, []byte(r.text(read(t, path))), 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// argv is the command line of a service: its image's entry point and its command.
func (s *stage) argv(t *testing.T, service types.ServiceConfig, r *rewriter) []string {
	t.Helper()
	image, _, _ := strings.Cut(service.Image, ":")
	entry := entrypoints[image]
	if service.Build != nil {
		entry = entrypoint(t, service.Build.Target)
	}
	argv := r.args(append(slices.Clone(entry), service.Command...))
	argv[0] = s.program(t, argv[0])
	return argv
}

// program is where a container's program is here.
func (s *stage) program(t *testing.T, name string) string {
	t.Helper()
	if built := filepath.Join(s.bin, filepath.Base(name)); filepath.IsAbs(name) {
		return built
	}
	return need(t, name)
}

// entrypoint is that of a stage of the Dockerfile.
func entrypoint(t *testing.T, target string) []string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, filepath.Join(root(t), "Dockerfile")), " AS "+target+"\n")
	m := regexp.MustCompile(`(?m)^(FROM|ENTRYPOINT) (.*)$`).FindStringSubmatch(rest)
	var argv []string
	if !found || m == nil || m[1] != "ENTRYPOINT" || json.Unmarshal([]byte(m[2]), &argv) != nil || len(argv) == 0 {
		t.Fatalf("the Dockerfile gives %s no entry point", target)
	}
	return argv
}

// environment is that of a service, and the way to programs.
func environment(service types.ServiceConfig, r *rewriter) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()}
	if _, ok := r.ports[service.Name+":9090"]; ok { // the default of foregate ready
		env = append(env, "FOREGATE_ADMIN="+r.text("http://127.0.0.1:9090"))
	}
	for name, value := range service.Environment {
		if port, ok := r.ports[service.Name+":"+*value]; ok && name == "PORT" {
			env = append(env, fmt.Sprintf("%s=%d", name, port))
			continue
		}
		env = append(env, name+"="+r.text(*value))
	}
	return env
}

// start runs a service when what it depends on is as it demands.
func (s *stage) start(t *testing.T, name string) {
	t.Helper()
	if s.running[name] != nil {
		return
	}
	service, err := s.project.GetService(name)
	if err != nil {
		t.Fatal(err)
	}
	for other, d := range service.DependsOn {
		s.start(t, other)
		if d.Condition == types.ServiceConditionHealthy {
			s.healthy(t, other)
		}
	}
	r := s.prepare(t, service)
	argv := s.argv(t, service, r)
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	// Not the test's context: Cleanup stops it as Compose would.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, environment(service, r), log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, log: log.Name(), ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // who stops it looks at the state
		_ = log.Close()
		close(p.ended)
	}()
	s.running[name] = p
	t.Cleanup(func() {
		s.stop(t, name)
		if t.Failed() {
			t.Logf("%s %q:\n%s", name, argv, tail(t, p.log))
		}
	})
}

// healthy waits until a service's own health check says so.
func (s *stage) healthy(t *testing.T, name string) {
	t.Helper()
	service, err := s.project.GetService(name)
	if err != nil {
		t.Fatal(err)
	}
	r := &rewriter{service: name, ports: s.ports, paths: map[string]string{}}
	for _, use := range service.Secrets {
		r.paths[use.Target] = filepath.Join(s.dir, name, use.Target)
	}
	test := r.args(service.HealthCheck.Test[1:])
	if service.HealthCheck.Test[0] == "CMD-SHELL" {
		test = []string{"/bin/sh", "-c", test[0]}
	} else {
		test[0] = s.program(t, test[0])
	}
	var said []byte
	s.eventually(t, name+" is healthy", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(*service.HealthCheck.Timeout))
		defer cancel()
		cmd := exec.CommandContext(ctx, test[0], test[1:]...)
		cmd.Env = environment(service, r)
		var err error
		said, err = cmd.CombinedOutput()
		select {
		case <-s.running[name].ended:
			t.Fatalf("%s ended", name)
		default:
		}
		return err == nil
	}, func() string { return string(said) })
}

// stop ends a service as Compose does, and holds that it ends well within its time.
func (s *stage) stop(t *testing.T, name string) {
	t.Helper()
	p := s.running[name]
	if p == nil {
		return
	}
	delete(s.running, name)
	service := s.project.Services[name]
	sig := syscall.SIGTERM
	if service.StopSignal == "SIGUSR1" {
		sig = syscall.SIGUSR1
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Errorf("%s had ended before: %v", name, err)
	}
	select {
	case <-p.ended:
	case <-time.After(min(time.Duration(*service.StopGracePeriod), 30*time.Second)):
		t.Errorf("%s does not stop", name)
		_ = p.cmd.Process.Kill() // its own pid, still held
		<-p.ended
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("%s ended with %d", name, code)
	}
}

// eventually polls a condition.
func (s *stage) eventually(t *testing.T, what string, holds func() bool, why ...func() string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(s.waits)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			for _, w := range why {
				t.Log(w())
			}
			t.Fatalf("it never came true that %s", what)
		}
	}
}

func tail(t *testing.T, path string) string {
	t.Helper()
	text := read(t, path)
	return text[max(0, len(text)-4000):]
}

// reply is an answer, read whole.
type reply struct {
	status int
	header http.Header
	body   string
}

func (s *stage) ask(ctx context.Context, method, url, body string, header http.Header) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text)}, err
}
