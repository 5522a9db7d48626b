package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

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
		_, out := foregate(t, append([]string{"reload", "--admin", p.admin}, args...)...)
		return out
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
