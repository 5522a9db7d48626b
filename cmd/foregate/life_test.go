package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

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
	file := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:0\npools:\n  p: {model: m, backends: [\"ftp://x\"]}\nroutes: [{model: a, target: q}]\nsurprise: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve", "-c", file}, {"check", file}} {
		status, out := foregate(t, args...)
		if status != 1 {
			t.Errorf("%v ended with status %d", args, status)
		}
		for _, want := range []string{file + ":3:28: pools.p.backends[0]", file + ":4:21: routes[0].target", file + ":5:1: surprise"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v does not say %q:\n%s", args, want, out)
			}
		}
	}
	if status, out := foregate(t, "serve", "-c", file+".gone"); status != 1 || !strings.Contains(out, "gone") {
		t.Errorf("a missing file: status %d, %s", status, out)
	}
	if status, _ := foregate(t, "no-such-command"); status == 0 {
		t.Error("an unknown command ended with status 0")
	}
}

// foregate runs the program to its end.
func foregate(t *testing.T, args ...string) (int, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), beForegate+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // the status tells
	return cmd.ProcessState.ExitCode(), out.String()
}
