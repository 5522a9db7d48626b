package cost

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// party is one side of the benchmark: the gateway, or this binary in a role.
type party struct {
	name, addr, admin string
	pid               int
	sessions          []*session
	idleRSS           float64 // MiB
	scrape            float64 // allocations that one reading of its metrics makes
}

// startRole starts this test binary in a role.
func startRole(b *testing.B, role string, args ...string) (p *party, stdout, stderr io.Reader) {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	return start(b, exe, role, args...)
}

// start starts a program and hands on what it writes. It is killed when the benchmark ends.
func start(b *testing.B, binary, role string, args ...string) (p *party, stdout, stderr io.Reader) {
	b.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	if role != mockName {
		cmd.Env = append(cmd.Env, "GOMAXPROCS="+strconv.Itoa(proxyProcs), "GOGC=400") // foregate sets this GOGC for itself
	}
	pipes := make([]io.ReadCloser, 2)
	_, errIn := cmd.StdinPipe()
	var errOut, errErr error
	pipes[0], errOut = cmd.StdoutPipe()
	pipes[1], errErr = cmd.StderrPipe()
	if err := errors.Join(errIn, errOut, errErr, cmd.Start()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // there is nothing to save
		_ = cmd.Wait()         // "killed" is what we want to hear
	})
	return &party{name: role, pid: cmd.Process.Pid}, pipes[0], pipes[1]
}

// gatewayBinary builds foregate as it is released.
func gatewayBinary(b *testing.B) string {
	b.Helper()
	out := filepath.Join(b.TempDir(), "foregate")
	if text, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "../../cmd/foregate").CombinedOutput(); err != nil {
		b.Fatalf("building what is measured: %v\n%s", err, text)
	}
	return out
}

// firstLine is what a role announces: its addresses.
func firstLine(b *testing.B, r io.Reader) []string {
	b.Helper()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		b.Fatalf("a process of the benchmark did not start: %v", err)
	}
	return strings.Fields(line)
}

func startMock(b *testing.B, args ...string) *party {
	p, out, errs := startRole(b, mockName, args...)
	go func() { _, _ = io.Copy(os.Stderr, errs) }()
	p.addr = firstLine(b, out)[0]
	return p
}

func startYardstick(b *testing.B, upstream string) *party {
	p, out, errs := startRole(b, yardstickName, "http://"+upstream)
	go func() { _, _ = io.Copy(os.Stderr, errs) }()
	addrs := firstLine(b, out)
	p.addr, p.admin = addrs[0], addrs[1]
	return p
}

// startGateway starts a gateway whose drafts are judged from the first request on.
func startGateway(b *testing.B, binary, upstream string) *party {
	b.Helper()
	store := miniredis.RunT(b)
	store.HSet("foregate:settings", "speculation.mode", "confidence")
	return startServe(b, binary, fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%[3]s/0"}
pools:
  draft: {model: %[1]s, usd_per_hour: 1, backends: ["http://%[2]s"]}
  target: {model: %[1]s, usd_per_hour: 12, backends: ["http://%[2]s"]}
routes:
  - {model: bench, draft: draft, target: target, same_tokenizer: true}
passthrough: [/v1/embeddings]
drain: {delay: 0s, grace: 1s}
`, mockModel, upstream, store.Addr()))
}

// startServe starts `foregate serve` as in production, its log at level info
// into a pipe.
func startServe(b *testing.B, binary, text string) *party {
	b.Helper()
	file := filepath.Join(b.TempDir(), "foregate.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	p, _, log := start(b, binary, "gateway", "serve", "-c", file)
	lines := bufio.NewReaderSize(log, wireBuffer)
	for p.addr == "" {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			b.Fatalf("the gateway did not start: %v %s", err, line)
		}
		var said struct{ Message, Listen, Admin string }
		if json.Unmarshal(line, &said) == nil && said.Message == "serving" {
			p.addr, p.admin = said.Listen, said.Admin
		}
	}
	go drainSlowly(lines)
	return p
}

// drainSlowly empties a pipe as a log collector does, in large pieces, so that
// the reader is not woken for each line.
func drainSlowly(r io.Reader) {
	buf := make([]byte, wireBuffer)
	for {
		if _, err := r.Read(buf); err != nil {
			return // its writer has ended
		}
		time.Sleep(time.Millisecond)
	}
}

// settle waits until the process answers, then connects and takes its measures
// at rest.
func (p *party) settle(b *testing.B, probe exchangeOf, sessions int) {
	b.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for len(p.sessions) == 0 {
		s, err := connectTo(p.addr)
		if err != nil {
			b.Fatal(err)
		}
		if _, err = s.ask(probe); err == nil {
			p.sessions = append(p.sessions, s)
		} else if time.Now().After(deadline) {
			b.Fatalf("%s does not answer: %v", p.name, err)
		} else {
			time.Sleep(50 * time.Millisecond)
		}
	}
	p.idleRSS = p.memory(b, "VmRSS")
	for len(p.sessions) < sessions {
		s, err := connectTo(p.addr)
		if err != nil {
			b.Fatal(err)
		}
		p.sessions = append(p.sessions, s)
	}
	p.mallocs(b)
	before := p.mallocs(b)
	p.scrape = p.mallocs(b) - before
}

// cpu is the CPU time that the process has used, in nanoseconds: the sum over its
// threads, which Go does not end.
func (p *party) cpu(b *testing.B) float64 {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.pid))
	if err != nil || len(files) == 0 {
		b.Skip("no /proc/PID/task/*/schedstat: CPU cannot be told per process here")
	}
	sum := 0.0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseFloat(first, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += ns
	}
	return sum
}

// memory reads a line of the process's status, in MiB: VmRSS is what it has,
// VmHWM the most that it had.
func (p *party) memory(b *testing.B, name string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib / 1024
		}
	}
	b.Fatalf("no %s of process %d", name, p.pid)
	return 0
}

// mallocs is how many objects the process has allocated.
func (p *party) mallocs(b *testing.B) float64 {
	b.Helper()
	return p.metric(b, "go_memstats_mallocs_total")
}

// metric sums the samples whose line begins with prefix.
func (p *party) metric(b *testing.B, prefix string) float64 {
	b.Helper()
	sum := 0.0
	for line := range bytes.Lines(p.get(b, "/metrics")) {
		if !bytes.HasPrefix(line, []byte(prefix)) {
			continue
		}
		fields := strings.Fields(string(line))
		v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += v
	}
	return sum
}

// get reads a page of the process's admin listener.
func (p *party) get(b *testing.B, path string) []byte {
	b.Helper()
	resp, err := http.Get("http://" + p.admin + path)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("%s of %s: %s, %v", path, p.name, resp.Status, err)
	}
	return body
}

// connect connects to a process.
func connectTo(addr string) (*session, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &session{conn: c, wire: newWire(c)}, nil
}
