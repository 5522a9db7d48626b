package main

import (
	"strings"
	"testing"
)

func TestFaultsOfASoakAreListed(t *testing.T) {
	status, out, errs := program("soak", "--list")
	if status != 0 || errs != "" || !strings.Contains(out, "redis-emptied ") || !strings.Contains(out, "replica-restarted ") {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	if _, out, _ := program("soak", "--list", "--only", "redis-slow"); strings.Count(out, "\n") != 1 {
		t.Errorf("of one fault the list is\n%s", out)
	}
}

func TestMistakesOfASoakAreToldBeforeAFleetStarts(t *testing.T) {
	for _, args := range [][]string{
		{"--for", "1m59s"}, {"--for", "25h"}, {"--every", "999ms"}, {"--every", "11m"}, {"--load", "0"}, {"--load", "1.1"}, {"--load", "NaN"},
		{"--rate", "0.5"}, {"--rate", "2001"}, {"--rate", "NaN"}, {"--rate", "-1"},
	} {
		if status, out, errs := program("soak", args[0]+"="+args[1]); status != 2 || out != "" || !strings.Contains(errs, args[0]+" must be between") {
			t.Errorf("%v: status %d, %q, %q; want 2 and the flag", args, status, out, errs)
		}
	}
	if status, out, errs := program("soak", "--only", "nonsense"); status != 2 || out != "" || !strings.Contains(errs, `"nonsense"`) {
		t.Errorf("a fault that there is not: status %d, %q, %q", status, out, errs)
	}
}
