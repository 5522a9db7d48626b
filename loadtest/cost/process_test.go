package cost

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cores are the two that the benchmark uses, by their numbers.
type cores struct{ measured, rest string }

// pin moves this process, and with it whatever it starts, to one core, and leaves another core to what is measured.
func pin(b *testing.B) cores {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	_, list, ok := strings.Cut(string(status), "Cpus_allowed_list:")
	if err != nil || !ok {
		b.Skip("no /proc/self/status: processes cannot be pinned to cores here")
	}
	list, _, _ = strings.Cut(list, "\n")
	list = strings.TrimSpace(list)
	numbers := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '-' })
	c := cores{measured: numbers[0], rest: numbers[len(numbers)-1]}
	if c.measured == c.rest {
		b.Skip("one core only: what is measured and what measures it need one each")
	}
	move := func(to string) {
		if text, err := exec.Command("taskset", "-a", "-p", "-c", to, strconv.Itoa(os.Getpid())).CombinedOutput(); err != nil {
			b.Skipf("taskset (util-linux) is needed to pin processes to cores: %v %s", err, text)
		}
	}
	move(c.rest)
	procs := runtime.GOMAXPROCS(1)
	b.Cleanup(func() {
		move(list)
		runtime.GOMAXPROCS(procs)
	})
	return c
}

// party is a process of the benchmark.
type party struct {
	name, addr, admin string
	addrs             []string // all that a role listens at
	pid               int
	sessions          []*session
	pageMallocs       float64  // objects that one reading of its metrics allocates
	replicas          []*party // further ones on the same core, which are measured with it
}

// start starts a program and returns what it writes. It is killed when the benchmark ends.
func start(b *testing.B, name string, command ...string) (p *party, stdout, stderr io.Reader) {
	b.Helper()
	cmd := exec.Command(command[0], command[1:]...) // taskset becomes the program that it starts
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v, "GOMAXPROCS=") || strings.HasPrefix(v, "GOMEMLIMIT=") // as by default
	}), roleEnv+"="+name)
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
		_ = cmd.Wait()         // "killed" is expected
	})
	return &party{name: name, pid: cmd.Process.Pid}, pipes[0], pipes[1]
}

// startRole starts this test binary in a role, which writes its addresses.
func startRole(b *testing.B, role string, before []string, args ...string) *party {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p, out, errs := start(b, role, slices.Concat(before, []string{exe}, args)...)
	go func() { _, _ = io.Copy(os.Stderr, errs) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatalf("the role %s did not start: %v", role, err)
	}
	p.addrs = strings.Fields(line)
	p.addr, p.admin = p.addrs[0], p.addrs[len(p.addrs)-1]
	return p
}

// settle waits until the process answers, then opens the connections.
func (p *party) settle(b *testing.B, connections int) {
	b.Helper()
	probe := chat{size: 1 << 10, tokens: shortAnswer}.exchange()
	for end := time.Now().Add(15 * time.Second); len(p.sessions) < connections; {
		s, err := connectTo(p.replica(len(p.sessions)).addr)
		if err == nil && len(p.sessions) == 0 {
			_, err = s.do(&probe)
		}
		switch {
		case err == nil:
			p.sessions = append(p.sessions, s)
		case time.Now().After(end):
			b.Fatalf("%s does not answer: %v", p.name, err)
		default:
			time.Sleep(50 * time.Millisecond)
		}
	}
	p.page(b)
	before := p.page(b).sum(b, mallocs)
	p.pageMallocs = p.page(b).sum(b, mallocs) - before
}

// replica is the one that connection i is to.
func (p *party) replica(i int) *party {
	if i %= len(p.replicas) + 1; i > 0 {
		return p.replicas[i-1]
	}
	return p
}

// cpu is the CPU time that the process and its replicas have used, in nanoseconds: the sum over their threads, which Go does not end.
func (p *party) cpu(b *testing.B) float64 {
	b.Helper()
	sum := p.own(b)
	for _, r := range p.replicas {
		sum += r.own(b)
	}
	return sum
}

// own is cpu of the process alone.
func (p *party) own(b *testing.B) float64 {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.pid))
	if err != nil || len(files) == 0 {
		b.Skip("no /proc/PID/task/*/schedstat: a process' CPU time cannot be read here")
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

// memory reads a line of the process's status, in MiB: VmRSS is what it has now, VmHWM the most that it had.
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

// page is a process's metrics.
type page []byte

// mallocs is how many objects a Go process has allocated.
const mallocs = "go_memstats_mallocs_total"

// page reads the metrics of the process and of its replicas, one after the other. nginx has none.
func (p *party) page(b *testing.B) page {
	b.Helper()
	if p.admin == "" {
		return nil
	}
	all := p.get(b, "/metrics")
	for _, r := range p.replicas {
		all = append(all, r.get(b, "/metrics")...)
	}
	return all
}

// sum adds up the samples whose line begins with prefix.
func (p page) sum(b *testing.B, prefix string) float64 {
	b.Helper()
	sum := 0.0
	for line := range bytes.Lines(p) {
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

// reasons are the metrics that say why a request was not served as expected.
func (p *party) reasons(b *testing.B) string {
	b.Helper()
	var out strings.Builder
	for line := range strings.Lines(string(p.page(b))) {
		for _, name := range []string{"llm_cache_requests_total{", "foregate_acceptance_total{", "foregate_verifications_total{", "foregate_upstream_failures_total{"} {
			if strings.HasPrefix(line, name) && !strings.HasSuffix(line, " 0\n") {
				out.WriteString(line)
			}
		}
	}
	return out.String()
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
