package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
)

const (
	startWait = 30 * time.Second // for a process to serve; race builds on a busy machine are slow
	stopWait  = 20 * time.Second // for it to end
	pollEvery = 10 * time.Millisecond
)

// atOnce has a race build end when it is done. By default it sleeps for a second first.
const atOnce = "GORACE=atexit_sleep_ms=50"

// server is a running `foregate serve`, in a process of its own.
type server struct {
	base, admin string // URLs of the two listeners
	addr        string // of the public one

	config    string        // its file
	interrupt func()        // has it stop
	hangUp    func()        // has it read its files again
	log       *apptest.Log  // its standard error
	serving   chan struct{} // closed when it has told its addresses
	exited    chan struct{} // closed when it has ended
	err       error         // how it ended
}

// serve runs `foregate serve` in a process of its own and stops it with the test, which checks
// that it ended well: status 0, no race, no panic.
func serve(t *testing.T, config string) *server {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return serveBy(t, exe, config)
}

// serveBy is serve by a given binary.
func serveBy(t *testing.T, exe, config string) *server {
	t.Helper()
	file := configFile(t, config)
	cmd := exec.Command(exe, "serve", "-c", file)
	cmd.Env = append(os.Environ(), beForegate+"=1", atOnce)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &server{config: file, log: &apptest.Log{}, serving: make(chan struct{}), exited: make(chan struct{})}
	p.interrupt = func() { _ = cmd.Process.Signal(syscall.SIGTERM) } // one that has ended does not mind
	p.hangUp = func() { _ = cmd.Process.Signal(syscall.SIGHUP) }
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // by its id, after the end below
	go p.watch(stderr, cmd.Wait)
	p.begin(t)
	return p
}

// begin waits for the addresses, and has the test end the server.
func (s *server) begin(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { s.end(t) })
	select {
	case <-s.serving:
	case <-s.exited:
		t.Fatalf("the gateway ended at once: %v\n%s", s.err, s.log.String())
	case <-time.After(startWait):
		t.Fatalf("the gateway did not serve within %v\n%s", startWait, s.log.String())
	}
}

// watch gathers the log, finds the addresses in it, and notes the end.
func (s *server) watch(stderr io.Reader, wait func() error) {
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadBytes('\n')
		_, _ = s.log.Write(line) // never fails
		var result struct{ Message, Listen, Admin string }
		if json.Unmarshal(line, &result) == nil && result.Message == "serving" {
			s.addr, s.base, s.admin = result.Listen, "http://"+result.Listen, "http://"+result.Admin
			close(s.serving)
		}
		if err != nil {
			break
		}
	}
	s.err = wait()
	close(s.exited)
}

// end stops the server, if the test did not, and checks how it went.
func (s *server) end(t *testing.T) {
	s.interrupt()
	select {
	case <-s.exited:
	case <-time.After(stopWait):
		t.Errorf("the gateway did not stop within %v", stopWait)
		return
	}
	log := s.log.String()
	if s.err != nil {
		t.Errorf("the gateway ended with %v\n%s", s.err, log)
	}
	for _, bad := range []string{"DATA RACE", "panicked", "goroutine "} {
		if strings.Contains(log, bad) {
			t.Errorf("the gateway's log holds %q:\n%s", bad, log)
			break
		}
	}
}

// ready waits until the gateway says it can serve every route.
func (s *server) ready(t *testing.T) {
	t.Helper()
	apptest.Eventually(t, "the gateway is ready", func() bool {
		status, _ := apptest.Get(t, s.base+"/readyz")
		return status == http.StatusOK
	})
}

const chat = "/v1/chat/completions"

// chatBody is a small chat request.
func chatBody(model string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]}`
}
