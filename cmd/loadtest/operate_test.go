package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestOperationsAreListedWithWhatIsPromised(t *testing.T) {
	status, out, errs := program("operate", "--list")
	if status != 0 || errs != "" {
		t.Fatalf("status %d, %s", status, errs)
	}
	for _, want := range []string{"O1 ", "O3 ", "O4 ", "0 lost, 0 cut", "rolling restart", "spot notice"} {
		if !strings.Contains(out, want) {
			t.Errorf("the list does not hold %q:\n%s", want, out)
		}
	}
}

func TestAnOperationWithoutAGatewayIsBroken(t *testing.T) {
	status, out, errs := program("operate", "--only", "O1", "--gateway", filepath.Join(t.TempDir(), "foregate"))
	if status != 1 || !strings.Contains(out, "| O1 | ") || !strings.Contains(out, "the world did not start") || !strings.Contains(errs, "operate: ") {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
}
