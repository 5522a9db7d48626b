package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFaultsAreListedWithWhatIsPromised(t *testing.T) {
	status, out, errs := program("chaos", "--list", "--only", "R4,S5")
	if status != 0 || errs != "" {
		t.Fatalf("status %d, %s", status, errs)
	}
	for _, want := range []string{"R4a ", "R4c ", "S5 ", "0 failed"} {
		if !strings.Contains(out, want) {
			t.Errorf("the list does not hold %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "R1 ") {
		t.Errorf("the list holds a row that was not asked for:\n%s", out)
	}
}

func TestMistakesOfTheFaultSuiteAreTold(t *testing.T) {
	for _, args := range [][]string{{"--only", "nonsense"}, {"--scale", "0"}, {"--scale", "-1"}, {"--part", "3/2"}, {"--part", "0/2"}, {"--part", "half"}} {
		if status, out, errs := program(append([]string{"chaos"}, args...)...); status != 2 || out != "" || !strings.Contains(errs, args[1]) {
			t.Errorf("%v: status %d, %q, %q; want 2 and what was wrong", args, status, out, errs)
		}
	}
}

func TestAGatewayThatIsNotThereBreaksItsRow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table.md")
	status, out, errs := program("chaos", "--only", "R1", "--gateway", filepath.Join(t.TempDir(), "foregate"), "--out", file)
	if status != 1 || !strings.Contains(out, "the world did not start") || !strings.Contains(errs, "run make build") && !strings.Contains(errs, "redis-server") {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != out {
		t.Errorf("the file holds %q, %v; want what was printed", text, err)
	}
}
