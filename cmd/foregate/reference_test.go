package main

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestTheReferenceIsUpToDate(t *testing.T) {
	const path = "../../REFERENCE.md"
	status, got, errs := call(t, "reference")
	if status != 0 {
		t.Fatal(errs)
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

// TestTheReadmesConfigurationStartsAsItStands: it is sound, and each of its backends is simulated by a line of the README.
func TestTheReadmesConfigurationStartsAsItStands(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("README.md has no yaml example")
	}
	f, err := config.Parse("README.md", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	checked, err := app.Check(f)
	if ofRoutes := slices.ContainsFunc(checked.Warnings, func(w string) bool { return strings.HasPrefix(w, "route") }); err != nil || ofRoutes {
		t.Errorf("%v; its prices are warned of: %q", err, checked.Warnings)
	}
	simulated := map[string]string{} // URL: model
	for _, line := range regexp.MustCompile(`bin/vllmsim --listen (\S+) --model (\S+) `).FindAllStringSubmatch(string(readme), -1) {
		simulated["http://"+line[1]] = line[2]
	}
	configured := map[string]string{}
	for _, def := range f.Pools {
		for _, url := range def.Backends {
			configured[url] = def.Model
		}
	}
	if diff := cmp.Diff(configured, simulated); diff != "" {
		t.Errorf("-backends of the configuration +simulated:\n%s", diff)
	}
}
