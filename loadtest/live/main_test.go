package live

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest"
)

// built is the folder of the gateway's binary, removed when the tests are over.
var built string

func TestMain(m *testing.M) {
	status := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(status)
}

// build makes the gateway's binary, once, when the first test needs it.
var build = sync.OnceValues(func() (path string, err error) {
	if built, err = os.MkdirTemp("", "foregate-built-"); err != nil {
		return "", err
	}
	path = filepath.Join(built, "foregate")
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/foregate").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// gatewayBinary returns the path of the gateway. It skips where there is no Redis
// to run it with, and in short runs: the gateway would be compiled a second time.
func gatewayBinary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a long test: make test-long, or make load")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not in PATH; make test installs it")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// scenario parses one.
func scenario(t *testing.T, text string) *loadtest.Scenario {
	t.Helper()
	s, err := loadtest.Parse(t.Name()+".yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// options run the first case of a scenario against real processes.
func options(t *testing.T, text string) Options {
	t.Helper()
	s := scenario(t, text)
	return Options{Scenario: s, Case: &s.Cases[0], Seed: 7, Gateway: gatewayBinary(t)}
}

// mustRun runs and fails the test on an error.
func mustRun(t *testing.T, o Options) *loadtest.Result {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// eventually polls until ok, for at most 10 seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
		if ok() {
			tick.Stop()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}
