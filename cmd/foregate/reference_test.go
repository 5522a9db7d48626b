package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/gateway/config"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestTheReferenceIsUpToDate(t *testing.T) {
	const path = "../../REFERENCE.md"
	got, err := reference(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("REFERENCE.md is stale; run make docs:\n%s", diff)
	}
}

func TestTheReadmesConfigurationIsValid(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("README.md has no yaml example")
	}
	if _, err := config.Parse("README.md", []byte(example)); err != nil {
		t.Error(err)
	}
}
