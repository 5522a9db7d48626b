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
	if _, short, _ := program("operate", "--list", "--short"); strings.Contains(short, "O5 ") || !strings.Contains(short, "O6 ") {
		t.Errorf("the short form is\n%s", short)
	}
}

func TestMistakesAboutOperationsAreTold(t *testing.T) {
	for _, args := range [][]string{{"--only", "R2"}, {"--scale", "0"}, {"--again", "11"}} {
		if status, out, errs := program(append([]string{"operate"}, args...)...); status != 2 || out != "" || !strings.Contains(errs, args[1]) {
			t.Errorf("%v: status %d, %q, %q; want 2 and what was wrong", args, status, out, errs)
		}
	}
}

func TestAnOperationWithoutAGatewayIsBroken(t *testing.T) {
	status, out, errs := program("operate", "--only", "O1", "--gateway", filepath.Join(t.TempDir(), "foregate"))
	if status != 1 || !strings.Contains(out, "| O1 | ") || !strings.Contains(out, "the world did not start") || !strings.Contains(errs, "operate: ") {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
}
