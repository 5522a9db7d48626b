package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startWait = 30 * time.Second // for a process to serve; race builds on a busy machine are slow
	stopWait  = 20 * time.Second // for it to end
	pollEvery = 10 * time.Millisecond
)

// atOnce has a race build end when it is done. By default it sleeps for a second first.
const atOnce = "GORACE=atexit_sleep_ms=50"

// server is a running `foregate serve`: in this process, or in one of its own.
type server struct {
	base, admin string // URLs of the two listeners
	addr        string // of the public one

	interrupt func()        // has it stop
	log       *syncBuffer   // its standard error
	serving   chan struct{} // closed when it has told its addresses
	exited    chan struct{} // closed when it has ended
	err       error         // how it ended
}

// serve runs the command serve on a configuration within this process and stops it with the test.
func serve(t *testing.T, config string) *server {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	out, in := io.Pipe()
	p := &server{interrupt: stop, log: &syncBuffer{}, serving: make(chan struct{}), exited: make(chan struct{})}
	cmd := serveCmd{Config: configFile(t, config), LogLevel: "info"}
	go func() {
		p.err = cmd.Run(&env{ctx: ctx, stdout: io.Discard, stderr: in})
		_ = in.Close()
	}()
	go p.watch(out, func() error { return p.err })
	p.begin(t)
	return p
}

// serveAlone runs `foregate serve` in a process of its own and stops it with the test, which checks
// that it ended well: status 0, no race, no panic.
func serveAlone(t *testing.T, config string) (*server, *os.Process) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "serve", "-c", configFile(t, config))
	cmd.Env = append(os.Environ(), beForegate+"=1", atOnce)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &server{log: &syncBuffer{}, serving: make(chan struct{}), exited: make(chan struct{})}
	p.interrupt = func() { _ = cmd.Process.Signal(syscall.SIGTERM) } // one that has ended does not mind
	t.Cleanup(func() { _ = cmd.Process.Kill() })                     // by its id, after the end below
	go p.watch(stderr, cmd.Wait)
	p.begin(t)
	return p, cmd.Process
}

// begin waits for the addresses, and has the test end the server.
func (p *server) begin(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { p.end(t) })
	select {
	case <-p.serving:
	case <-p.exited:
		t.Fatalf("the gateway ended at once: %v\n%s", p.err, p.log.String())
	case <-time.After(startWait):
		t.Fatalf("the gateway did not serve within %v\n%s", startWait, p.log.String())
	}
}

// watch gathers the log, finds the addresses in it, and notes the end.
func (p *server) watch(stderr io.Reader, wait func() error) {
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadBytes('\n')
		p.log.write(line)
		var said struct{ Message, Listen, Admin string }
		if json.Unmarshal(line, &said) == nil && said.Message == "serving" {
			p.addr, p.base, p.admin = said.Listen, "http://"+said.Listen, "http://"+said.Admin
			close(p.serving)
		}
		if err != nil {
			break
		}
	}
	p.err = wait()
	close(p.exited)
}

// end stops the server, if the test did not, and checks how it went.
func (p *server) end(t *testing.T) {
	p.interrupt()
	select {
	case <-p.exited:
	case <-time.After(stopWait):
		t.Errorf("the gateway did not stop within %v", stopWait)
		return
	}
	log := p.log.String()
	if p.err != nil {
		t.Errorf("the gateway ended with %v\n%s", p.err, log)
	}
	for _, bad := range []string{"DATA RACE", "panicked", "goroutine "} {
		if strings.Contains(log, bad) {
			t.Errorf("the gateway's log holds %q:\n%s", bad, log)
			break
		}
	}
}

// ready waits until the gateway says it can serve every route.
func (p *server) ready(t *testing.T) {
	t.Helper()
	eventually(t, "the gateway is ready", func() bool {
		status, _ := get(t, p.base+"/readyz")
		return status == http.StatusOK
	})
}

// metrics is the page of the admin listener.
func (p *server) metrics(t *testing.T) string {
	t.Helper()
	status, page := get(t, p.admin+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("GET /metrics: status %d", status)
	}
	return page
}

// plain is a client that keeps to the loopback and follows nothing.
var plain = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       time.Minute,
}

// get returns status and body, status 0 when there was no answer.
func get(t testing.TB, url string) (int, string) {
	t.Helper()
	resp, err := plain.Get(url)
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

// eventually polls until ok, for at most 10 seconds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	within(t, 10*time.Second, what, ok)
}

// within polls until ok. A look that takes long is followed by as long a pause: who looks
// without pause takes the processor from those that are looked at.
func within(t testing.TB, limit time.Duration, what string, ok func() bool) {
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

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) write(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Write(p)
}

// String is what was written so far.
func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// post sends JSON and returns the body of a 200.
func post(t *testing.T, url, body string, headers ...string) (string, http.Header) {
	t.Helper()
	status, head, got := send(t, http.MethodPost, url, body, headers...)
	if status != http.StatusOK {
		t.Fatalf("POST %s: status %d: %s", url, status, got)
	}
	return got, head
}

// send makes one request; headers are names and values in turn.
func send(t *testing.T, method, url, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := plain.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read to its end, or its error counts
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return resp.StatusCode, resp.Header, string(got)
}

// completion is an answer in JSON, as far as tests read it.
type completion struct {
	Choices []struct{ Message struct{ Content string } }
	Usage   struct {
		CompletionTokens int `json:"completion_tokens"`
	}
}

// complete sends a chat request and returns its answer, which must be a 200.
func complete(t *testing.T, p *server, body string) (c completion) {
	t.Helper()
	text, _ := post(t, p.base+chat, body)
	if err := json.Unmarshal([]byte(text), &c); err != nil || len(c.Choices) == 0 {
		t.Fatalf("%v: %s", err, text)
	}
	return c
}

// grep returns the lines of a page that hold a word.
func grep(page, word string) string {
	var out []string
	for line := range strings.Lines(page) {
		if strings.Contains(line, word) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
