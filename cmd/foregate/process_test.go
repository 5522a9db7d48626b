package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

const (
	startWait = 30 * time.Second // for a process to serve; race builds on a busy machine are slow
	stopWait  = 20 * time.Second // for it to end
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
	file := apptest.File(t, "foregate.yaml", config)
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

func TestSIGTERMLetsStreamsFinishAndEndsWithStatusZero(t *testing.T) {
	sim := vllmsim.Start(t, vllmsim.Options{Model: "m", Seed: 1, TimeScale: 10})
	p := serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
pools: {only: {model: m, backends: [%q]}}
routes: [{model: llama-3, target: only}]
drain: {delay: 3s, grace: 15s}
`, sim.URL()))
	p.ready(t)
	var streams sync.WaitGroup
	for i := range 10 {
		streams.Go(func() {
			// About 1.5 s of this backend.
			_, _, text := apptest.Send(t, http.MethodPost, p.base+chat, fmt.Sprintf(
				`{"model":"llama-3","max_tokens":600,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Tell the long story number %d."}]}`, i))
			if !strings.Contains(text, `"completion_tokens":600`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
				t.Errorf("stream %d was not let finish: %s", i, text[max(0, len(text)-500):])
			}
		})
	}
	apptest.Eventually(t, "all streams are under way", func() bool { return sim.State().Running == 10 })
	p.interrupt()
	apptest.Eventually(t, "the gateway says that it is not ready", func() bool {
		status, text := apptest.Get(t, p.base+"/readyz")
		return status == http.StatusServiceUnavailable && text == "draining\n"
	})
	if status, _ := apptest.Get(t, p.base+"/livez"); status != http.StatusOK {
		t.Errorf("it is draining and alive, but /livez says %d", status)
	}
	apptest.Post(t, p.base+chat, chatBody("llama-3")) // requests in the drain delay are answered
	streams.Wait()
	select {
	case <-p.exited: // the end of the test checks the status
	case <-time.After(stopWait):
		t.Error("the process did not end after its last stream")
	}
	if status, _ := apptest.Get(t, p.base+"/livez"); status != 0 {
		t.Errorf("the listener is still open: %d", status)
	}
}

func TestABadConfigurationIsRefusedByFileLineAndField(t *testing.T) {
	file := apptest.File(t, "foregate.yaml", "listen: 127.0.0.1:0\npools:\n  p: {model: m, backends: [\"ftp://x\"]}\nroutes: [{model: a, target: q}]\nsurprise: 1\n")
	for _, args := range [][]string{{"serve", "-c", file}, {"check", file}} {
		status, _, out := call(t, args...)
		if status != 1 {
			t.Errorf("%v ended with status %d", args, status)
		}
		for _, want := range []string{file + ":3:28: pools.p.backends[0]", file + ":4:21: routes[0].target", file + ":5:1: surprise"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v does not say %q:\n%s", args, want, out)
			}
		}
	}
	if status, _, out := call(t, "serve", "-c", file+".gone"); status != 1 || !strings.Contains(out, "gone") {
		t.Errorf("a missing file: status %d, %s", status, out)
	}
	if status, _, _ := call(t, "no-such-command"); status == 0 {
		t.Error("an unknown command ended with status 0")
	}
}

// TestSIGHUPPutsAChangedFileIntoForce changes backends, refuses a bad file, and lets the command tell a dry run.
func TestSIGHUPPutsAChangedFileIntoForce(t *testing.T) {
	first, second := vllmsim.Start(t, vllmsim.Options{Model: "m", TimeScale: 50}), vllmsim.Start(t, vllmsim.Options{Model: "m", TimeScale: 50})
	text := func(backend, more string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\npools: {only: {model: m, backends: [%q]}}\nroutes: [{model: llama-3, target: only}]\ndrain: {delay: 0s}\n%s", backend, more)
	}
	p := serve(t, text(first.URL(), ""))
	p.ready(t)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(p.config+".next", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(p.config+".next", p.config); err != nil {
			t.Fatal(err)
		}
	}
	reload := func(args ...string) string {
		t.Helper()
		_, out, errs := call(t, append([]string{"reload", "--admin", p.admin}, args...)...)
		return out + errs
	}
	write(text(second.URL(), "limits: {in_flight: 9}\n"))
	if out := reload("--dry-run"); out != "pools.only: changed\na reload would put this into force\nlimits: differs, and needs a restart\n" {
		t.Errorf("the dry run says %q", out)
	}
	p.hangUp()
	apptest.Eventually(t, "the log tells of the signal", func() bool {
		return strings.Contains(p.log.String(), `"signal":"hangup","changes":["pools.only: changed"],"count":1,"restart":["limits"]`)
	})
	write("pools: 7\n")
	p.hangUp()
	apptest.Eventually(t, "the log tells of the bad file", func() bool {
		return strings.Contains(p.log.String(), `"problems":["config:1:1: pools: `)
	})
	if out := reload(); !strings.Contains(out, "config:1:1: pools: ") {
		t.Errorf("a reload of a bad file says %q", out)
	}
	write(text(first.URL(), ""))
	if out := reload(); out != "pools.only: changed\nin force\n" {
		t.Errorf("the reload says %q", out)
	}
	if out := reload(); out != "nothing changes\n" {
		t.Errorf("a second reload says %q", out)
	}
}
