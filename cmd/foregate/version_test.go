package main

import (
	"runtime"
	"testing"
)

// stamp does what the linker does for a release.
func stamp(t *testing.T, version, revision string) {
	t.Helper()
	v, r := stampedVersion, stampedRevision
	t.Cleanup(func() { stampedVersion, stampedRevision = v, r })
	stampedVersion, stampedRevision = version, revision
}

func TestTheVersionIsWhatWasStamped(t *testing.T) {
	stamp(t, "v1.2.3", "0123456789abcdef")
	if got := version(); got != "v1.2.3 0123456789abcdef" {
		t.Errorf("the status says %q", got)
	}
	status, out, errs := call(t, "version")
	want := "foregate v1.2.3\nrevision  0123456789abcdef\ngo        " + runtime.Version() + "\nplatform  " + runtime.GOOS + "/" + runtime.GOARCH + "\n"
	if status != 0 || out != want || errs != "" {
		t.Errorf("status %d, %q, %q; want %q", status, out, errs, want)
	}
}
