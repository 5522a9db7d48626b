package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// call runs the program in this process.
func call(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(args, &o, &e)
	return status, o.String(), e.String()
}

// configFile writes a configuration and returns its path.
func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "foregate.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCheckWarnsOfWhatIsNotEnforced(t *testing.T) {
	file := configFile(t, `listen: 127.0.0.1:0
pools: {p: {model: m, backends: ["http://h:1"]}}
routes: [{model: m, target: p}]
tenants: [{id: acme, tpm: 1000}, {id: beta, rpm: 10}]
`)
	status, out, errs := call(t, "check", file)
	if status != 0 || !strings.Contains(out, ": ok: 1 pools, 1 routes, 2 tenants") {
		t.Errorf("status %d: %s", status, out)
	}
	if want := file + ": warning: tenant acme: tpm is not enforced by this release; rpm is\n"; errs != want {
		t.Errorf("got %q, want %q", errs, want)
	}
}

func TestTheVersionIsTold(t *testing.T) {
	if status, out, _ := call(t, "version"); status != 0 || !strings.HasPrefix(out, "foregate ") {
		t.Errorf("status %d: %q", status, out)
	}
}
