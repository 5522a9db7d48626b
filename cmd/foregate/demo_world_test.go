package main

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// demoWorld is a running `foregate demo`.
type demoWorld struct {
	t              testing.TB
	cmd            *exec.Cmd
	requests, base string // URLs: where requests are taken, and of the admin listener
	link           string // that signs in at the console

	log  *apptest.Log // what it has printed
	stop func() error // interrupts it, once, and says how it ended
}

// launchDemo starts one that says where it is, and stops it with the test.
func launchDemo(t testing.TB, args ...string) *demoWorld {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, append([]string{"demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--redis-listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), beForegate+"=1")
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close() // the child has its own
	d := &demoWorld{t: t, cmd: cmd, log: &apptest.Log{}}
	var reading sync.WaitGroup
	reading.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := out.Read(buf)
			d.log.Write(buf[:n])
			if err != nil {
				return
			}
		}
	})
	d.stop = sync.OnceValue(func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		kill := time.AfterFunc(stopWait, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		err := cmd.Wait()
		reading.Wait()
		_ = out.Close()
		return err
	})
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Errorf("the demo ended with %v\n%s", err, d.log.String())
		}
	})
	apptest.Within(t, startWait, "the demo says where its console is", func() bool {
		d.requests, d.base, d.link = d.told("requests"), strings.TrimSuffix(d.told("metrics"), "/metrics"), d.told("console")
		return d.requests != "" && d.base != "" && d.link != ""
	})
	return d
}

// told is what follows a label in what the demo has printed, "" before.
func (d *demoWorld) told(label string) string {
	for line := range strings.Lines(d.log.String()) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), label+" "); ok && strings.HasSuffix(line, "\n") {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}
