package main

import (
	"encoding/json"
	"runtime"
	"strings"
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

func TestTheVersionIsToldAsJSON(t *testing.T) {
	stamp(t, "v1.2.3", "0123456789abcdef")
	status, out, _ := call(t, "version", "--json")
	var b build
	if err := json.Unmarshal([]byte(out), &b); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, out)
	}
	if want := (build{"v1.2.3", "0123456789abcdef", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}); b != want {
		t.Errorf("%+v, want %+v", b, want)
	}
}

func TestAProgramWithoutAStampSaysWhatItKnows(t *testing.T) {
	stamp(t, "", "")
	if got := version(); got == "" || strings.HasPrefix(got, " ") {
		t.Errorf("the version is %q", got)
	}
}
