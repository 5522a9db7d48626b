package main

import (
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
