package soak

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// binaries builds the gateway with vllmsim beside it. It skips where there is no Redis, and in short runs.
func binaries(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a long test: make test-long, or make soak")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not in PATH; make test installs it")
	}
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "../../cmd/foregate", "../../cmd/vllmsim").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir + "/foregate"
}

// TestASoakAccountsForEveryRequest is a soak of three cycles, too short to tell what grows.
func TestASoakAccountsForEveryRequest(t *testing.T) {
	r, err := Run(t.Context(), Options{
		Gateway: binaries(t), For: 6 * time.Second, Every: 2 * time.Second, Rate: 20, Seed: 1, Only: []string{"target-errors", "bad-threshold"}, Say: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + r.Text())
	for _, c := range r.Checks {
		// Two seconds are short for a breaker that has to close, on a busy machine.
		if !c.Held && !strings.HasPrefix(c.Name, "faults after which") {
			t.Errorf("%s: %s, bound %s", c.Name, c.Figure, c.Bound)
		}
	}
	if len(r.Series) < 4 || len(r.Series[0].Samples) != 3 || len(r.Rest) == 0 || len(r.Periods) != 5 {
		t.Errorf("%d series, %d at rest, %d periods", len(r.Series), len(r.Rest), len(r.Periods))
	}
}

func TestASoakWithoutAGatewayIsAnError(t *testing.T) {
	_, err := Run(t.Context(), Options{Gateway: t.TempDir() + "/foregate", For: time.Second, Every: time.Second, Say: t.Logf})
	if err == nil || !strings.Contains(err.Error(), "run make build") {
		t.Errorf("got %v", err)
	}
	if _, err := Run(t.Context(), Options{Only: []string{"nonsense"}, Say: t.Logf}); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("got %v", err)
	}
}
