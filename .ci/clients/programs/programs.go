// Package programs starts the programs of this repository for tests of their clients. It runs what
// make build has put into bin/, on the loopback, and stops it with the test.
package programs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// StartWait is how long a program may take to say that it serves.
const StartWait = 30 * time.Second

const (
	stopWait  = 20 * time.Second
	pollEvery = 10 * time.Millisecond
)

// Client sends requests for tests. It follows no redirects.
var Client = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       time.Minute,
}

// Program is a running program.
type Program struct {
	Output *Output      // what it has written so far
	Stop   func() error // interrupts it, once, and returns how it ended
	PID    int

	exited chan struct{} // closed when its output has ended
}

// start runs a program until the test ends. The test fails if the program then ends with an error.
func start(t testing.TB, name string, args ...string) *Program {
	t.Helper()
	cmd := exec.Command(binary(t, name), args...)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	err = cmd.Start()
	_ = in.Close() // the child has its own
	if err != nil {
		t.Fatal(err)
	}
	p := &Program{Output: &Output{}, PID: cmd.Process.Pid, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		_, _ = io.Copy(p.Output, out)
	}()
	p.Stop = sync.OnceValue(func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		kill := time.AfterFunc(stopWait, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		err := cmd.Wait()
		<-p.exited
		return errors.Join(err, out.Close())
	})
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("%s ended with %v\n%s", name, err, p.Output)
		}
	})
	return p
}

// binary is the path of a program that make build has made.
func binary(t testing.TB, name string) string {
	t.Helper()
	file := filepath.Join("..", "..", "..", "bin", name)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	return file
}

// await polls until the program has written what ready looks for.
func (p *Program) await(t testing.TB, what string, ready func(output string) bool) {
	t.Helper()
	Within(t, StartWait, what, func() bool {
		select {
		case <-p.exited:
			t.Fatalf("it ended before: %s\n%s", what, p.Output)
		default:
		}
		return ready(p.Output.String())
	})
}

// StartSimulator starts vllmsim with the given flags and returns its URL.
func StartSimulator(t testing.TB, flags ...string) string {
	t.Helper()
	p := start(t, "vllmsim", append([]string{"--listen", "127.0.0.1:0"}, flags...)...)
	url := ""
	p.await(t, "the simulator tells its address", func(output string) bool {
		_, rest, _ := strings.Cut(output, " on http://")
		address, _, whole := strings.Cut(rest, "\n")
		url = "http://" + address
		return whole
	})
	return url
}

// Gateway is a running `foregate serve`.
type Gateway struct {
	*Program
	URL, Admin string // URLs of its two listeners
}

// StartGateway starts a gateway and waits until it is ready to serve every route.
func StartGateway(t testing.TB, config string) *Gateway {
	t.Helper()
	file := filepath.Join(t.TempDir(), "foregate.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &Gateway{Program: start(t, "foregate", "serve", "-c", file)}
	g.await(t, "the gateway tells its addresses", func(output string) bool {
		for line := range strings.Lines(output) {
			var entry struct{ Message, Listen, Admin string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "serving" {
				g.URL, g.Admin = "http://"+entry.Listen, "http://"+entry.Admin
			}
		}
		return g.URL != ""
	})
	Within(t, StartWait, "the gateway is ready", func() bool {
		status, _ := Get(t, g.URL+"/readyz")
		return status == http.StatusOK
	})
	return g
}

// Demo is a running `foregate demo`.
type Demo struct {
	*Program
	Requests string // URL of chat completions
	Admin    string // URL of the admin listener
	Console  string // link that signs in at the console
}

// StartDemo starts a demonstration with the given flags and waits until it tells its addresses.
func StartDemo(t testing.TB, flags ...string) *Demo {
	t.Helper()
	d := &Demo{Program: start(t, "foregate", append([]string{
		"demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--redis-listen", "127.0.0.1:0",
	}, flags...)...)}
	d.await(t, "the demonstration tells its addresses", func(output string) bool {
		d.Requests, d.Console = labelled(output, "requests"), labelled(output, "console")
		d.Admin = strings.TrimSuffix(labelled(output, "metrics"), "/metrics")
		return d.Requests != "" && d.Admin != "" && d.Console != ""
	})
	return d
}

// labelled is what follows a label in a whole line of output, "" where there is none.
func labelled(output, label string) string {
	for line := range strings.Lines(output) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), label+" "); ok && strings.HasSuffix(line, "\n") {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// Redis is the URL of the server that .ci/with-redis has started.
func Redis(t testing.TB) string {
	t.Helper()
	address := os.Getenv("REDIS_ADDR")
	if address == "" {
		t.Fatal("REDIS_ADDR is not set: run make clients, or .ci/with-redis go test")
	}
	return "redis://" + address + "/0"
}

// Run runs a foregate command to its end. The test fails if its status is not 0.
func Run(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), binary(t, "foregate"), args...).CombinedOutput(); err != nil {
		t.Fatalf("foregate %v: %v\n%s", args, err, out)
	}
}

// Get returns status and body, status 0 when there was no answer.
func Get(t testing.TB, url string) (int, string) {
	t.Helper()
	resp, err := Client.Get(url)
	if err != nil {
		return 0, ""
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read to its end
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(body)
}

// Within polls until ok. A look that takes long is followed by an equal pause, which leaves the
// processor to the programs.
func Within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		began := time.Now()
		if ok() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		<-time.After(max(pollEvery, time.Since(began)))
	}
}

// Output is what a program has written; it is read while the program writes.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends p and never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// String is what was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
